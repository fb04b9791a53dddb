"""Where the result comes from: code, image, input, options, versions, device, times, and how to make it again."""

import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import device
from ..weights import WeightsError, locked
from .addresses import masked
from .exits import BadConfiguration
from .inputs import PLAN
from .output import Output
from .plan import checksum_of, code_fingerprint, data_files, folder_of
from .publishing import to_json

RUNS = "_runs"
_SAID = re.compile(r"^(Name|Version): *(.*?) *$", re.MULTILINE)
VERSIONS = sorted(("cupy-cuda12x", "cupy-cuda13x", "numpy", "pyarrow", "transformers", *device.FRAMEWORKS))


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
            "versions": versions(),
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


def provenance(output: Output, current: dict[str, Any] | None) -> dict[str, Any]:
    """Return the whole story of the result: its plan and every start that worked on it."""
    runs = [run for content in output.read_all(RUNS) if (run := _parsed(content))]
    plan = json.loads(output.read(PLAN) or b"{}")
    files = plan.pop("files", [])
    story = current or (runs[-1] if runs else {})
    told = ("command", "folder", "code", "image", "versions", "packages", "locks", "weights", "device")
    few = {"start", "end", "exit_code", "rows", "shard", "command", "device", "code"}
    return {
        "start": min((run["start"] for run in runs), default=None),
        "end": datetime.now(UTC).isoformat(timespec="seconds"),
        **{key: story.get(key) for key in told},
        "parameters": plan,
        "input": {
            "files": len(files),
            "bytes": sum(file["size"] for file in files),
            "fingerprint": hashlib.sha256(to_json(files)).hexdigest(),
        },
        "runs": [{key: value for key, value in run.items() if key in few} for run in runs],
    }


def _parsed(content: bytes) -> dict[str, Any]:
    """Return what a start has written, {} where it is cut: it tells of the past, and nothing depends on it."""
    try:
        run: dict[str, Any] = json.loads(content)
        return run if {"start", "shard"} <= run.keys() else {}
    except (ValueError, AttributeError):
        return {}


def code_version(package: str) -> dict[str, Any]:
    """Return the commit (from git, or in an image what scripts/build has put there), and the code's own fingerprint."""
    commit, changed = _environment("APP_VERSION"), None
    folder = folder_of(package)
    try:
        commit = commit or _git(folder, "rev-parse", "HEAD")
        changed = bool(_git(folder, "status", "--porcelain", "--", "."))
    except (OSError, subprocess.SubprocessError):
        pass
    return {
        "commit": commit,
        "changed_since": changed,
        "runtime": _version("gpu-repo-runtime"),
        "sha256": code_fingerprint(package),
    }


def image() -> dict[str, Any] | None:
    """Return the image that this runs in and its base image, None outside of one.

    The manifests pass the image with its digest as IMAGE; APP_IMAGE is the name that it was built with.
    """
    try:
        base = json.loads(Path("/opt/base/image.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        base = None
    own = _environment("IMAGE") or _environment("APP_IMAGE")
    return {"name": own, "base": base} if own or base else None


def _environment(name: str) -> str | None:
    value = os.environ.get(name)
    return None if value in ("", "unknown") else value


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the numbers depend on."""
    found = {"python": platform.python_version()}
    return found | {name: version for name in VERSIONS if (version := _version(name))}


def packages() -> dict[str, str]:
    """Return the versions of all packages that are installed."""
    found = dict(map(_name_and_version, metadata.distributions()))
    return dict(sorted(found.items(), key=lambda one: one[0].lower()))


def _name_and_version(package: metadata.Distribution) -> tuple[str, str]:
    # The parser for e-mails, which importlib.metadata has for it, takes longer for all packages than to import NumPy.
    head = (package.read_text("METADATA") or "").partition("\n\n")[0]
    said = dict(_SAID.findall(head))
    return said.get("Name") or package.name, said.get("Version") or package.version


def locks(package: str) -> dict[str, str]:
    """Return the SHA-256 of the lock files of the repository that the package is in."""
    folder = folder_of(package).parent.parent
    return {path.name: checksum_of(path) for path in sorted(folder.glob("requirements*.lock"))}


def weights(package: str) -> dict[str, str]:
    """Return the SHA-256 of the files of weights.lock, and of those beside model.py that are not Python."""
    beside = data_files(package)
    try:
        lock = locked(package)
    except WeightsError as error:
        raise BadConfiguration(str(error)) from None
    return beside | ({path: file.sha256 for path, file in lock.files().items()} if lock else {})


def _version(package: str) -> str | None:
    """Return the version of an installed package; None where it is not installed, or used from its source."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
