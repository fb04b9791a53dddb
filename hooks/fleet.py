"""Bring a version of the template to many children: see where they stand, plan, push by waves, take back.

  status    where each child stands: version, releases behind, image, last outcome
  plan      make every update in a clone, run the child's tests if asked, classify; pushes nothing
  apply     push what the finished plan holds for one wave and open a request for each; conflicts become drafts
  rollback  close the requests of a version, and open a reverting one where it was merged
  report    write fleet.html, fleet.json and fleet.xml of what is known

A stopped run goes on where it was. Exit codes: 0 all good, 3 conflicts, 4 edits at risk, 5 tests failed, 6 a child
that cannot be updated or pushed (the worst child decides); 1 nothing could be done, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
import yaml
from fleetkit import report
from fleetkit.apply import apply_child
from fleetkit.children import WAVES, Child, Fleet, FleetError, load, shown
from fleetkit.git_rules import set_rules
from fleetkit.isolation import Limits, Tests, choose_way
from fleetkit.listing import with_listed
from fleetkit.numbers_given import amount, at_least_one, count, share
from fleetkit.plan import plan_child
from fleetkit.rollback import roll_back
from fleetkit.speed import compile_templates_once, read_yaml_fast, share_checkouts
from fleetkit.state import Record, State, digest
from fleetkit.status import status_of
from fleetkit.waves import Rules, check_waves, to_push
from gpu_repo_runtime.update.template_versions import UpdateError, versions
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
CODES = {"error": 6, "test failed": 5, "at risk": 4, "conflict": 3}


def end_with(parent: int) -> None:
    """End this process once `parent` is gone, so that a killed run leaves no worker behind."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def start_worker(folder: str) -> None:
    """Give this worker a cache of its own, since Copier locks none, and let it share its checkouts of the template."""
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    own = Path(folder) / "copier" / str(os.getpid())
    os.environ["COPIER_CACHE_DIR"] = str(own / "cache")
    share_checkouts(own / "checkouts")
    read_yaml_fast()
    compile_templates_once()


def each(pool: Executor, work: Callable[[Child], Record], children: Iterable[Child], what: str) -> list[Record]:
    """Do `work` for each child in the pool with a progress bar; the records come in the order of the children."""
    members = list(children)
    jobs = {pool.submit(work, child): child.name for child in members}
    done: dict[str, Record] = {}
    for job in tqdm(as_completed(jobs), total=len(jobs), desc=what, unit="child", disable=not sys.stderr.isatty()):
        done[jobs[job]] = shown(job.result())
    return [done[child.name] for child in members]


class Plan:
    """The work of one child in a plan, for worker processes."""

    def __init__(self, state: State, options: argparse.Namespace) -> None:
        self.state, self.options = state, options
        self.tests = options.tests

    def __call__(self, child: Child) -> Record:
        return plan_child(self.state, child, self.options.template, self.options.to, self.tests)


def worst(records: list[Record]) -> int:
    """Return the exit code of the worst outcome."""
    present = {str(record.get("outcome")) for record in records}
    return next((code for outcome, code in CODES.items() if outcome in present), 0)


def known(state: State, fleet: Fleet) -> list[Record]:
    """Return what is remembered of every child."""
    blank = [{"name": c.name, "url": c.url, "wave": c.wave, "owner": c.owner, "outcome": ""} for c in fleet.children]
    return [shown(record) | state.read(record["name"]) for record in blank]


def tell(records: list[Record], columns: tuple[str, ...]) -> None:
    """Print one line a child."""
    for record in records:
        words = [str(record.get(column, "") or "-") for column in columns]
        print("  ".join(f"{word:<14}" for word in words).rstrip())


def run_status(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Print where each child stands."""
    catalog = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text(encoding="utf-8"))
    hosts = fleet.known_hosts()
    with ThreadPoolExecutor(options.jobs * 4) as pool:
        records = each(pool, lambda child: status_of(state, child, catalog, hosts), fleet.children, "status")
    if options.json:
        print(json.dumps(records, indent=1))
    else:
        print("child           version         behind          image           support         last outcome")
        tell(records, ("name", "version", "behind", "image", "image_state", "outcome", "error"))
    return CODES["error"] if any("error" in record for record in records) else 0


def tests_of(fleet: Fleet, options: argparse.Namespace) -> Tests:
    """Return the tests of the children and how they are kept apart. Raises FleetError where they cannot be."""
    hidden = tuple(rule.token_env for rule in fleet.hosts)
    for name in options.test_env:
        if name in hidden:
            raise FleetError(f"--test-env {name}: this is the token of a host, and no child may see it")
    limits = Limits(options.test_limit, int(options.test_memory * 2**30), int(options.test_disk * 2**30))
    way = "none" if options.tests_without_isolation or not options.test else choose_way(options.test_see)
    return Tests(options.test, limits, way, tuple(options.test_see), tuple(options.test_env), hidden)


def commits_of(plan: Record, to: str, records: list[Record]) -> dict[str, str]:
    """Return the commit of each child that is planned to `to`, those of the waves that were planned before too."""
    before = plan.get("commits", {}) if plan.get("to") == to else {}
    made = {record["name"]: record.get("commit", "") for record in records}
    return {name: commit for name, commit in (before | made).items() if commit}


def run_plan(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Plan every child, write the report, print the outcomes."""
    if not options.template:
        raise FleetError("--template is empty: it needs the address of the template, as the children name it")
    newest = list(versions(options.template).values())
    options.to = options.to or (newest[-1] if newest else "")
    if options.to not in newest:
        raise FleetError(f"the template has no version {options.to}: there are {', '.join(newest) or 'none'}")
    options.tests = tests_of(fleet, options)
    chosen = [child for child in fleet.children if options.wave in (None, child.wave)]
    before = state.plan()
    plan = {"to": options.to, "finished": False, "wave": options.wave, "commits": commits_of(before, options.to, [])}
    state.write_plan(plan)
    context = multiprocessing.get_context("fork")  # Copier is imported once, not once in each worker
    with ProcessPoolExecutor(options.jobs, context, start_worker, (str(state.folder / "cache"),)) as pool:
        records = each(pool, Plan(state, options), chosen, "plan")
    shutil.rmtree(state.folder / "cache" / "copier", ignore_errors=True)
    plan |= {"finished": True, "commits": commits_of(before, options.to, records)}
    state.write_plan(plan)
    report.write(state, known(state, fleet), options.report, f"Fleet plan to {options.to}")
    tell(records, ("name", "outcome", "from", "to", "message"))
    print(f"plan {digest(plan)}")
    return worst(records)


def run_apply(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Push the planned updates of one wave."""
    plan = state.plan()
    if options.plan not in (None, digest(plan)):
        raise FleetError(f"the plan here is {digest(plan)} and not the one that was approved, {options.plan}")
    rules = Rules(options.threshold, options.max_failed, options.soak)
    if plan.get("finished"):
        check_waves(state, fleet, options.wave, plan["to"], rules)
    due = to_push(state, fleet, options.wave, options.max_open, rules.max_failed)
    with ThreadPoolExecutor(options.jobs) as pool:
        records = each(pool, lambda child: apply_child(state, fleet, child), due, "apply")
    tell([r | r.get("pushed", {}) for r in records], ("name", "outcome", "branch", "address", "apply_error"))
    report.write(state, known(state, fleet), options.report, f"Fleet after apply of {plan['to']}, wave {options.wave}")
    failed = any("apply_error" in record for record in records)
    wave = [record for record in known(state, fleet) if record["wave"] == options.wave]
    return CODES["error"] if failed else worst(wave)


def run_rollback(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Take a version back."""
    chosen = [child for child in fleet.children if options.wave in (None, child.wave) and not child.paused]
    with ThreadPoolExecutor(options.jobs) as pool:
        records = each(pool, lambda child: roll_back(state, fleet, child, options.to), chosen, "rollback")
    tell(records, ("name", "rollback", "rollback_error"))
    if not any(record.get("rollback") or "rollback_error" in record for record in records):
        raise FleetError(f"no child has {options.to}, merged or waiting: nothing was taken back")
    return CODES["error"] if any("rollback_error" in record for record in records) else 0


def run_report(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Write the report of what is known."""
    records = known(state, fleet)
    report.write(state, records, options.report, "Fleet")
    print(options.report / "fleet.html")
    return worst(records)


def add_test_options(plan: argparse.ArgumentParser) -> None:
    """Add what the children's tests may take and see."""
    plan.add_argument("--test-limit", type=amount, default=1800, metavar="SECONDS")
    plan.add_argument("--test-memory", type=amount, default=8, metavar="GIB", help="of one child (default: 8)")
    plan.add_argument("--test-disk", type=amount, default=8, metavar="GIB", help="of one child, in memory (default: 8)")
    plan.add_argument(
        "--test-see", action="append", default=[], metavar="PLACE", help="a file or folder that tests may read"
    )
    plan.add_argument("--test-env", action="append", default=[], metavar="NAME", help="a variable that tests may see")
    plan.add_argument(
        "--tests-without-isolation", action="store_true", help="let tests reach everything that you can reach"
    )


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    top = argparse.ArgumentParser(
        prog="fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--fleet", type=Path, default=Path("fleet.yml"), help="fleet.yml, or a folder of repositories")
    top.add_argument("--state", type=Path, default=Path("build/fleet"), help="where the tool remembers")
    top.add_argument("--report", type=Path, help="where the report goes (default: the state's folder)")
    top.add_argument("--jobs", type=at_least_one, default=os.cpu_count() or 1)
    commands = top.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status")
    status.add_argument("--json", action="store_true")
    plan = commands.add_parser("plan")
    plan.add_argument("--template", required=True, help="the address of the template, as the children name it")
    plan.add_argument("--to", metavar="vX.Y.Z", help="the version to bring (default: the newest)")
    plan.add_argument("--wave", choices=WAVES)
    plan.add_argument(
        "--test", metavar="COMMAND", help="the child's own tests, for example 'scripts/setup && scripts/test'"
    )
    add_test_options(plan)
    apply = commands.add_parser("apply")
    apply.add_argument("--wave", choices=WAVES, required=True)
    apply.add_argument(
        "--threshold", type=share, default=0.9, metavar="0..1",
        help="share of the earlier waves that must be merged or green (default: 0.9)",
    )  # fmt: skip
    apply.add_argument(
        "--max-failed", type=share, default=0.2, metavar="0..1",
        help="share of the children with a verdict that may be red (default: 0.2)",
    )  # fmt: skip
    apply.add_argument(
        "--soak",
        type=amount,
        default=0,
        metavar="HOURS",
        help="how long the earlier waves have had it (default: 0)",
    )
    apply.add_argument("--plan", metavar="sha256:...", help="apply this plan only: what `fleet plan` printed")
    apply.add_argument("--max-open", type=count, help="no more open requests than this in the fleet")
    rollback = commands.add_parser("rollback")
    rollback.add_argument("--to", required=True, metavar="vX.Y.Z", help="the version to take back")
    rollback.add_argument("--wave", choices=WAVES)
    commands.add_parser("report")
    return top


RUN = {"status": run_status, "plan": run_plan, "apply": run_apply, "rollback": run_rollback, "report": run_report}


def main() -> int:
    """Run one command and return the exit code."""
    options = parser().parse_args()
    set_rules()
    try:
        fleet, state = with_listed(load(options.fleet)), State(options.state)
        options.report = options.report or state.folder
        if options.command in ("status", "report"):
            return RUN[options.command](state, fleet, options)
        with state.alone():
            return RUN[options.command](state, fleet, options)
    except (FleetError, UpdateError) as error:
        print(f"fleet: {shown(str(error))}", file=sys.stderr)
    except KeyboardInterrupt:
        print("fleet: stopped; the same command goes on where it was", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
