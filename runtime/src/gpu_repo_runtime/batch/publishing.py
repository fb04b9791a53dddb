"""The end of the job: all parts there; then the manifest, where the result comes from, and `_SUCCESS`."""

import hashlib
import json
import os
import platform
import shlex
import subprocess
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import device
from ..weights import WeightsError, locked
from .exits import BadConfiguration, BadInput
from .messages import masked
from .output import DATA, QUARANTINE, SUCCESS, TEMPORARY, WAITING, Output, Record, part_name, to_json
from .parts import READERS, InputFile
from .plan import Plan, checksum_of, folder_of

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


def provenance(options: Namespace, arguments: Sequence[str], plan: Plan, device_name: str) -> dict[str, Any]:
    """Return where the result comes from, as the start that publishes it has it."""
    found = plan.as_dict()
    files = found.pop("files")
    return {
        "end": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": masked(shlex.join(["python", "-m", "gpu_repo_runtime.batch", options.package, *arguments])),
        "folder": os.environ.get("JOB_FOLDER") or str(Path.cwd()),
        "code": code_version(options.package, plan.code),
        "image": image(),
        "packages": packages(),
        "locks": locks(options.package),
        "weights": weights(options.package),
        "device": device.describe(device_name),
        "parameters": found,
        "input": {
            "files": len(files),
            "bytes": sum(file["size"] for file in files),
            "fingerprint": hashlib.sha256(to_json(files)).hexdigest(),
        },
    }


def code_version(package: str, fingerprint: str) -> dict[str, Any]:
    """Return the commit (from git, or in an image what scripts/build has put there), and the code's own fingerprint."""
    folder = folder_of(package)
    commit = _environment("APP_VERSION") or _git(folder, "rev-parse", "HEAD")
    changed = None if (status := _git(folder, "status", "--porcelain", "--", ".")) is None else bool(status)
    return {"commit": commit, "changed_since": changed, "sha256": fingerprint}


def image() -> dict[str, Any] | None:
    """Return the image that this runs in and its base image, None outside of one.

    The manifests pass the image with its digest as IMAGE; APP_IMAGE is the name that it was built with.
    """
    record = Path("/opt/base/image.json")
    base = json.loads(record.read_text(encoding="utf-8")) if record.exists() else None
    own = _environment("IMAGE") or _environment("APP_IMAGE")
    return {"name": own, "base": base} if own or base else None


def _environment(name: str) -> str | None:
    value = os.environ.get(name)
    return None if value in ("", "unknown") else value


def packages() -> dict[str, str]:
    """Return the versions of Python and of all packages that are installed."""
    found = {one["Name"]: one["Version"] for one in (each.metadata for each in metadata.distributions()) if one["Name"]}
    return {"python": platform.python_version(), **dict(sorted(found.items(), key=lambda one: one[0].lower()))}


def locks(package: str) -> dict[str, str]:
    """Return the SHA-256 of the lock files of the repository that the package is in."""
    folder = folder_of(package).parent.parent
    names = [*folder.glob("uv.lock"), *sorted(folder.glob("requirements*.lock"))]
    return {path.name: checksum_of(path) for path in names}


def weights(package: str) -> dict[str, str]:
    """Return the SHA-256 of the files of weights.lock."""
    try:
        lock = locked(package)
    except WeightsError as error:
        raise BadConfiguration(str(error)) from None
    return {path: file.sha256 for path, file in lock.files().items()} if lock else {}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
