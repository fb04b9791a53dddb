"""Where the result comes from: code, image, input, options, versions, device, times, and how to make it again."""

import hashlib
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import device
from .plan import NAME as PLAN
from .plan import code_fingerprint, to_json
from .store import Store, read_all

RUNS = "_runs"
PACKAGE = __package__.partition(".")[0]
VERSIONS = ("cupy-cuda12x", "cupy-cuda13x", "numpy", "pyarrow", "tensorflow", "torch", "transformers")


class RunRecord:
    """A file beside the output for each start of a worker, so that stops and restarts can be seen afterwards."""

    def __init__(self, store: Store, arguments: Sequence[str], device_name: str, shard: str) -> None:
        self._store = store
        begin = datetime.now(UTC)
        self.content: dict[str, Any] = {
            "start": begin.isoformat(timespec="seconds"),
            "shard": shard,
            "device": device.describe(device_name),
            "code": code_version(),
            "image": image(),
            "versions": versions(),
            "command": shlex.join(["python", "-m", f"{PACKAGE}.job", *arguments]),
        }
        self._name = f"{RUNS}/{begin:%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.json"
        store.write(self._name, to_json(self.content))

    def end(self, code: int, rows: int) -> None:
        """Add how the run ended: its exit code and the rows that it did."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._store.write(self._name, to_json(self.content | {"end": now, "exit_code": code, "rows": rows}))


def provenance(store: Store, current: dict[str, Any] | None) -> dict[str, Any]:
    """Return the whole story of the result: its plan and every start that worked on it."""
    runs = [json.loads(content) for content in read_all(store, RUNS, sorted(store.names(RUNS)))]
    plan = json.loads(store.read(PLAN) or b"{}")
    files = plan.pop("files", [])
    story = current or (runs[-1] if runs else {})
    return {
        "start": min((run["start"] for run in runs), default=None),
        "end": datetime.now(UTC).isoformat(timespec="seconds"),
        **{key: story.get(key) for key in ("command", "code", "image", "versions", "device")},
        "parameters": plan,
        "input": {
            "files": len(files),
            "bytes": sum(file["size"] for file in files),
            "fingerprint": hashlib.sha256(to_json(files)).hexdigest(),
        },
        "runs": runs,
    }


def code_version() -> dict[str, Any]:
    """Return the commit (git's, or APP_VERSION from the image's build) and the fingerprint of the code itself."""
    commit, changed = _built_in("APP_VERSION"), None
    folder = Path(__file__).resolve().parent
    try:
        commit = commit or _git(folder, "rev-parse", "HEAD")
        changed = bool(_git(folder, "status", "--porcelain", "--", "."))
    except (OSError, subprocess.SubprocessError):
        pass
    return {"commit": commit, "changed_since": changed, "template": _template_version(), "sha256": code_fingerprint()}


def image() -> dict[str, Any] | None:
    """Return the image (IMAGE, or APP_IMAGE from its build) and its base image, None outside of one."""
    try:
        base = json.loads(Path("/opt/base/image.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        base = None
    own = os.environ.get("IMAGE") or _built_in("APP_IMAGE")
    return {"name": own, "base": base} if own or base else None


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _built_in(name: str) -> str | None:
    value = os.environ.get(name)
    return None if value == "unknown" else value


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=10).stdout.strip()


def _template_version() -> str | None:
    """Return the version of the template, from the file that Copier keeps its answers in."""
    for folder in Path(__file__).resolve().parents:
        answers = folder / ".copier-answers.yml"
        if answers.is_file():
            lines = answers.read_text(encoding="utf-8").splitlines()
            return next((line.partition(":")[2].strip(" '\"") for line in lines if line.startswith("_commit:")), None)
    return os.environ.get("TEMPLATE_VERSION")
