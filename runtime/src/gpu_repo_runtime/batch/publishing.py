"""The end of the job: all parts there; then the manifest, where the result comes from, and `_SUCCESS`."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .exits import BadConfiguration
from .output import DATA, QUARANTINE, READERS, SUCCESS, TEMPORARY, WAITING, Output, Record, part_name, to_json
from .run import judge

MANIFEST = "_manifest.json"
PROVENANCE = "_provenance.json"
COUNTS = ("rows", "written", "bad", "uncounted")

Records = dict[tuple[int, int], Record]


def missing_parts(records: Records, units: int) -> list[str]:
    """Return what is not finished, in words."""
    last = {one.unit: one.index for one in records.values() if one.last}
    missing = [f"the end of file {unit}" for unit in range(units) if unit not in last]
    parts = [(unit, index) for unit, end in sorted(last.items()) for index in range(end + 1)]
    return missing + [part_name(*one) for one in parts if one not in records]


def publish(output: Output, records: Records, provenance: dict[str, Any], max_bad: float) -> dict[str, int]:
    """Make the parts the result and return the counts of rows. Several workers may do so: each step can be repeated.

    Raises BadInput when too many rows are bad, BadConfiguration when there are files that no part has written.
    """
    own = list(records.values())
    counts = {key: sum(getattr(one, key) for one in own) for key in COUNTS}
    causes = sum((Counter(one.cause) for one in own), Counter[str]())
    judge(counts["written"] + counts["bad"], counts["bad"], counts["uncounted"], max_bad, causes)
    _check_versions(own)
    _check_others(output, own)
    output.make_data()
    with ThreadPoolExecutor(READERS) as pool:
        sums = list(pool.map(output.checksum, [f"{DATA}/{one.name}.parquet" for one in own]))
    parts = [
        {"name": one.name, **one.as_dict(), "blank": one.rows - one.written - one.bad, "size": one.size, "sha256": sha}
        for one, sha in zip(own, sums, strict=True)
    ]
    counts = {key: value for key, value in counts.items() if value or key != "uncounted"}
    output.write(MANIFEST, to_json({**counts, "parts": parts}))
    output.write(PROVENANCE, to_json({**provenance, **counts}))
    output.write(SUCCESS, b"")
    output.tidy(TEMPORARY)
    return counts


def _check_versions(records: list[Record]) -> None:
    seen: dict[str, str] = {}
    for name, version in (pair for one in records for pair in one.versions.items()):
        if seen.setdefault(name, version) != version:
            raise BadConfiguration(
                f"{name} has changed during the run: version {seen[name]}, then {version}; use another --output"
            )


def _check_others(output: Output, records: list[Record]) -> None:
    """Raise BadConfiguration when the folders contain files that no part has written; remove left-over bad rows."""
    known = {f"{one.name}.parquet" for one in records}
    quarantined = {f"{one.name}.parquet" for one in records if one.quarantine}
    places = {f"{folder}/{name}" for folder in (WAITING, DATA) for name in output.sizes(folder).keys() - known}
    for name in output.sizes(QUARANTINE).keys() - quarantined:
        if name in known:
            # A kill left them: when the part was made again, none of its rows was bad.
            output.delete(f"{QUARANTINE}/{name}")
        else:
            places.add(f"{QUARANTINE}/{name}")
    if places and not output.is_complete:
        folder, _, name = min(places).partition("/")
        raise BadConfiguration(
            f"{folder} contains {name!r}, which this job has not written and readers would take for a result: "
            "remove it and start again"
        )


def check_published(output: Output, max_bad: float) -> None:
    """Check a complete output against its manifest. Raises BadInput when more than a share of its rows is bad.

    Raises BadConfiguration when a part is gone, or has another size.
    """
    found = json.loads(output.read(MANIFEST) or b"{}")
    there, quarantined = output.sizes(DATA), output.sizes(QUARANTINE)
    lost = [] if found else [MANIFEST]
    for one in found.get("parts", []):
        name = f"{one['name']}.parquet"
        if there.get(name) != one["size"] or one.get("quarantine", 0) not in (0, quarantined.get(name)):
            lost.append(name)
    if lost:
        raise BadConfiguration(
            f"the output is complete, and {lost[0]} is lost or changed: delete {SUCCESS} and start again to repair it"
        )
    written, bad, uncounted = (int(found.get(key) or 0) for key in ("written", "bad", "uncounted"))
    causes = sum((Counter(one.get("cause")) for one in found.get("parts", [])), Counter[str]())
    judge(written + bad, bad, uncounted, max_bad, causes)


def check_ours(output: Output, location: str, plan: str) -> None:
    """Raise BadConfiguration when an output without a plan has a result: another program's, or an older one."""
    found = SUCCESS if output.is_complete else min([*output.sizes(DATA), *output.sizes(WAITING)], default="")
    if found and not output.has(plan):
        raise BadConfiguration(
            f"{location} contains {found}, and no {plan} of this job: use another --output, or delete what is there"
        )
