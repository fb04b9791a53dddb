"""The end of the job: all parts there; then the manifest, where the result comes from, and `_SUCCESS`."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .exits import BadConfiguration, BadInput
from .output import DATA, QUARANTINE, SUCCESS, TEMPORARY, WAITING, Output, Record, part_name, to_json
from .parts import READERS, InputFile

Records = dict[tuple[int, int], Record]


def missing_parts(records: Records, units: Sequence[Sequence[InputFile]]) -> list[str]:
    """Return what is not finished, in words. Raises BadConfiguration for parts of a start that found other files."""
    names = [{file.name for file in unit} for unit in units]
    for one in records.values():
        if one.unit >= len(names) or not names[one.unit].issuperset(one.files):
            raise BadConfiguration(f"another start found other input files ({one.name}): use another --output")
    last = {one.unit: one.index for one in records.values() if one.last}
    missing = [f"the end of file {unit}" for unit in range(len(names)) if unit not in last]
    parts = [(unit, index) for unit, end in sorted(last.items()) for index in range(end + 1)]
    return missing + [part_name(*one) for one in parts if one not in records]


def publish(output: Output, records: Records, provenance: dict[str, Any], max_bad: float) -> dict[str, int]:
    """Make the parts the result and return the counts of rows. Several workers may do so: each step can be repeated.

    Raises BadInput when too many rows are bad, BadConfiguration when a file of the input has changed.
    """
    own = list(records.values())
    counts = {key: sum(getattr(one, key) for one in own) for key in ("rows", "written", "bad")}
    causes = sum((Counter(one.cause) for one in own), Counter[str]())
    _judge(counts["written"] + counts["bad"], counts["bad"], max_bad, causes)
    _check_versions(own)
    # A kill left them: when their parts were made again, no row was bad.
    for name in {f"{one.name}.parquet" for one in own if not one.quarantine} & output.sizes(QUARANTINE).keys():
        output.delete(f"{QUARANTINE}/{name}")
    output.make_data()
    with ThreadPoolExecutor(READERS) as pool:
        sums = list(pool.map(output.checksum, [f"{DATA}/{one.name}.parquet" for one in own]))
    parts = [
        {"name": one.name, **one.as_dict(), "blank": one.rows - one.written - one.bad, "size": one.size, "sha256": sha}
        for one, sha in zip(own, sums, strict=True)
    ]
    output.write("_manifest.json", to_json({**counts, "parts": parts}))
    output.write("_provenance.json", to_json({**provenance, **counts}))
    output.write(SUCCESS, b"")
    output.tidy(TEMPORARY)
    return counts


def _judge(rows: int, bad: int, max_bad: float, causes: Counter[str]) -> None:
    """Raise BadInput when more than a share of all rows is bad. causes: why, and of how many rows."""
    if rows and bad > max_bad * rows:
        # Parts of an older version name none.
        most = "".join(f"; most often ({count:,}): {cause}" for cause, count in causes.most_common(1))
        raise BadInput(f"{bad:,} of {rows:,} rows are bad, more than --max-bad {max_bad:g} allows{most}")


def _check_versions(records: list[Record]) -> None:
    seen: dict[str, str] = {}
    for name, version in (pair for one in records for pair in one.versions.items()):
        if seen.setdefault(name, version) != version:
            raise BadConfiguration(
                f"{name} has changed during the run: version {seen[name]}, then {version}; use another --output"
            )


def check_ours(output: Output, location: str, plan: str) -> None:
    """Raise BadConfiguration when an output without a plan has a result: another program's, or an older one."""
    found = SUCCESS if output.is_complete else min([*output.sizes(DATA), *output.sizes(WAITING)], default="")
    if found and not output.has(plan):
        raise BadConfiguration(
            f"{location} contains {found}, and no {plan} of this job: use another --output, or delete what is there"
        )
