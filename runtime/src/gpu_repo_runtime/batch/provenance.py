"""Where the result comes from: code, image, input, options, versions, device, times, and how to make it again."""

import hashlib
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import device
from ..weights import WeightsError, locked
from .exits import BadConfiguration
from .inputs import PLAN
from .messages import masked
from .output import Output, to_json
from .plan import checksum_of, code_fingerprint, data_files, folder_of

RUNS = "_runs"
_OF_THE_LAST_RUN = ("command", "folder", "code", "image", "packages", "locks", "weights", "device")
_OF_EACH_RUN = {"start", "end", "exit_code", "rows", "shard", "command", "device", "code"}


class RunRecord:
    """A file beside the output for each start of a worker, so that stops and restarts can be seen afterwards."""

    def __init__(self, output: Output, package: str, arguments: Sequence[str], device_name: str, shard: str) -> None:
        self._output = output
        begin = datetime.now(UTC)
        self.content: dict[str, Any] = {
            "start": begin.isoformat(timespec="seconds"),
            "shard": shard,
            "device": device.describe(device_name),
            "code": code_version(package),
            "image": image(),
            "packages": packages(),
            "locks": locks(package),
            "weights": weights(package),
            "command": masked(shlex.join(["python", "-m", "gpu_repo_runtime.batch", package, *arguments])),
            "folder": os.environ.get("JOB_FOLDER") or str(Path.cwd()),
        }
        self._name = f"{RUNS}/{begin:%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.json"
        output.write(self._name, to_json(self.content))

    def end(self, code: int, rows: int) -> None:
        """Add how the run ended: its exit code and the rows that it did."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._output.write(self._name, to_json(self.content | {"end": now, "exit_code": code, "rows": rows}))


def provenance(output: Output, last: dict[str, Any]) -> dict[str, Any]:
    """Return the whole story of the result: its plan and every start that worked on it, of which `last` is this one."""
    runs = [json.loads(content) for content in output.read_all(RUNS)]
    plan = json.loads(output.read(PLAN) or b"{}")
    files = plan.pop("files", [])
    return {
        "start": min((run["start"] for run in runs), default=None),
        "end": datetime.now(UTC).isoformat(timespec="seconds"),
        **{key: last.get(key) for key in _OF_THE_LAST_RUN},
        "parameters": plan,
        "input": {
            "files": len(files),
            "bytes": sum(file["size"] for file in files),
            "fingerprint": hashlib.sha256(to_json(files)).hexdigest(),
        },
        "runs": [{key: value for key, value in run.items() if key in _OF_EACH_RUN} for run in runs],
    }


def code_version(package: str) -> dict[str, Any]:
    """Return the commit (from git, or in an image what scripts/build has put there), and the code's own fingerprint."""
    folder = folder_of(package)
    commit = _environment("APP_VERSION") or _git(folder, "rev-parse", "HEAD")
    changed = None if (status := _git(folder, "status", "--porcelain", "--", ".")) is None else bool(status)
    runtime = packages().get("gpu-repo-runtime")  # None where it is used from its source
    return {"commit": commit, "changed_since": changed, "runtime": runtime, "sha256": code_fingerprint(package)}


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


@cache
def packages() -> dict[str, str]:
    """Return the versions of Python and of all packages that are installed; they are read once for a process."""
    found = {one["Name"]: one["Version"] for one in (each.metadata for each in metadata.distributions()) if one["Name"]}
    return {"python": platform.python_version(), **dict(sorted(found.items(), key=lambda one: one[0].lower()))}


def locks(package: str) -> dict[str, str]:
    """Return the SHA-256 of the lock files of the repository that the package is in."""
    folder = folder_of(package).parent.parent
    names = [*folder.glob("uv.lock"), *sorted(folder.glob("requirements*.lock"))]
    return {path.name: checksum_of(path) for path in names}


def weights(package: str) -> dict[str, str]:
    """Return the SHA-256 of the files of weights.lock, and of those beside model.py that are not Python."""
    try:
        lock = locked(package)
    except WeightsError as error:
        raise BadConfiguration(str(error)) from None
    return data_files(package) | ({path: file.sha256 for path, file in lock.files().items()} if lock else {})


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
