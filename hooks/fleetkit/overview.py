"""The commands that look at the fleet and change no child: status, drift, remind and list."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

import yaml
from tqdm import tqdm

from fleetkit import drift_page
from fleetkit.advisories import load_advisories
from fleetkit.children import Child, Fleet, shown
from fleetkit.drift import drift_of, summary
from fleetkit.fleet_file import as_text
from fleetkit.remind import Patience, remind_child
from fleetkit.state import Record, State
from fleetkit.status import status_of

ROOT = Path(__file__).resolve().parent.parent.parent
DRIFT = ("child", "version", "behind", "age", "image", "weaknesses", "open requests")
CODES = {"error": 6, "test failed": 5, "at risk": 4, "conflict": 3, "to do": 3}


def each(pool: Executor, work: Callable[[Child], Record], children: Iterable[Child], what: str) -> list[Record]:
    """Do `work` for each child in the pool with a progress bar; the records come in the order of the children."""
    members = list(children)
    jobs = {pool.submit(work, child): child.name for child in members}
    done: dict[str, Record] = {}
    try:
        for job in tqdm(as_completed(jobs), total=len(jobs), desc=what, unit="child", disable=not sys.stderr.isatty()):
            done[jobs[job]] = shown(job.result())
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)  # what has begun ends, and nothing begins any more
        raise
    return [done[child.name] for child in members]


def tell(records: list[Record], columns: tuple[str, ...]) -> None:
    """Print one line a child."""
    for record in records:
        words = [str(record.get(column, "") or "-") for column in columns]
        print("  ".join(f"{word:<14}" for word in words).rstrip())


def report_of(state: State, options: argparse.Namespace) -> Path:
    """Return the folder of the report: the one that was asked for, else that of the state."""
    return Path(options.report or state.folder)


def read_catalog() -> Record:
    """Return the catalogue of the images."""
    return dict(yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text(encoding="utf-8")))


def run_status(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Print where each child stands."""
    catalog = read_catalog()
    hosts = fleet.known_hosts()
    with ThreadPoolExecutor(options.jobs * 4) as pool:
        records = each(pool, lambda child: status_of(state, child, catalog, hosts), fleet.children, "status")
    if options.json:
        print(json.dumps(records, indent=1))
    else:
        print("child           version         behind          image           support         last outcome")
        tell(records, ("name", "version", "behind", "image", "image_state", "outcome", "error"))
    return CODES["error"] if any("error" in record for record in records) else 0


def run_drift(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Write the page of drift and print its lines."""
    advisories = load_advisories(options.advisories) if options.advisories else None
    catalog, now = read_catalog(), datetime.now(UTC)
    with ThreadPoolExecutor(options.jobs * 4) as pool:
        records = each(pool, lambda c: drift_of(state, fleet, c, catalog, advisories, now), fleet.children, "drift")
    data = summary(records, advisories, now)
    folder = report_of(state, options)
    rows = drift_page.write(data, folder)
    if options.json:
        print(json.dumps(drift_page.plain(data), indent=1))
    else:
        for row in rows:
            row |= {"weak": f"{len(row['weaknesses'])} weak" if row["asked"] else "", "open": len(row["requests"])}
        print("".join(f"{word:<16}" for word in DRIFT).rstrip())
        tell(rows, ("name", "version", "behind", "age", "image", "weak", "open", "error"))
        print(folder / "drift.html")
    return CODES["error"] if any("error" in r or "requests_error" in r for r in records) else 0


def run_remind(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Remind of the requests that are open for long."""
    patience = Patience(options.days, options.every, not options.dry_run)
    with ThreadPoolExecutor(options.jobs) as pool:
        records = each(pool, lambda child: remind_child(fleet, child, patience), fleet.children, "remind")
    if options.json:
        print(json.dumps(drift_page.plain(records), indent=1))
    else:
        done = "would be reminded" if options.dry_run else "reminded"
        lines = [
            {"name": record["name"], "days": f"{one['days']} days", "done": done if one["reminded"] else "waits"} | one
            for record in records for one in record["requests"]
        ] + [record for record in records if "error" in record]  # fmt: skip
        tell(lines, ("name", "days", "done", "address", "error"))
    return CODES["error"] if any("error" in record for record in records) else 0


def run_list(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Write the fleet as a file that names every child, for a machine that has no token."""
    options.to_file.parent.mkdir(parents=True, exist_ok=True)
    options.to_file.unlink(missing_ok=True)
    options.to_file.touch(mode=0o600)  # an address in it may hold a password
    options.to_file.write_text(as_text(fleet), encoding="utf-8")
    print(f"{options.to_file}: {len(fleet.children)} children")
    return 0
