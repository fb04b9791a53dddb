"""Bring the runtime's entry in a child's locks along, and what the base image now has in another version. Nothing else.

uv resolves only what is new, with every other package pinned as it is in the lock; it builds no package.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from ..locking import COMPILE, floor
from .git import BYTES, Git, UpdateError, clean

RUNTIME = "gpu-repo-runtime"
DEVELOPMENT = "requirements-dev.lock"  # without the runtime
LOCKS = ("requirements.lock", "requirements-gpu.lock", DEVELOPMENT)
ENTRY = re.compile(r"(?m)^(?=[A-Za-z0-9])")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
PIN = re.compile(r"(?m)^[A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?==([^\s;\\]+)")
ASKED = re.compile(rf"(?m)^{RUNTIME}\S* @ file:(\S+)$")


def entries(lock: str) -> dict[str, str]:
    """Return the text of a lock by package, all versions of one together; what precedes them has the name ""."""
    found: dict[str, str] = {}
    for entry in ENTRY.split(lock.rstrip("\n") + "\n"):
        name = canonicalize_name(match[0]) if (match := NAME.match(entry)) else ""
        found[name] = found.get(name, "") + entry
    return found


def versions(lock: str) -> dict[str, str]:
    """Return the versions that a lock pins, without the packages that have one for each marker."""
    pins = {name: PIN.findall(text) for name, text in entries(lock).items() if name}
    return {name: found[0] for name, found in pins.items() if len(found) == 1}


def requires(wheel: bytes) -> list[str]:
    """Return what a wheel requires, in the words of its metadata; nothing for no wheel."""
    with tempfile.TemporaryDirectory(prefix="update-") as name:
        Path(name, "runtime.whl").write_bytes(wheel)
        return [line for one in distributions(path=[f"{name}/runtime.whl"]) for line in one.requires or []]


class Locks:
    """The locks of one child after an update: the index has the new runtime and image, HEAD the old ones."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.was, self.image = (versions(git.file("constraints.txt", at)) for at in ("HEAD", ""))
        old, new = (ASKED.search(git.file("wheels/requirements.in", at)) for at in ("HEAD", ""))
        self.asked, self.path = (new[0], new[1]) if new else ("", "wheels/none")
        self.wheel = git.file(self.path, "").encode(*BYTES)
        self.is_same = requires(self.wheel) == requires(git.file(old[1]).encode(*BYTES) if old else b"")

    def resolve(self, asked: list[str], held: dict[str, str]) -> dict[str, str]:
        """Return the entries that uv finds for what is asked, while it holds some versions. Raises UpdateError."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        with tempfile.TemporaryDirectory(prefix="update-") as name:
            Path(name, "asked.in").write_text("\n".join(asked), encoding="utf-8")
            Path(name, "held.txt").write_text("".join(f"{one}=={held[one]}\n" for one in held), encoding="utf-8")
            Path(name, "wheels").mkdir()
            Path(name, self.path).write_bytes(self.wheel)
            command = ["uv", "pip", "compile", *COMPILE, "asked.in", "--constraints", "held.txt", "--python-version"]
            command.append(floor(self.git.folder))
            done = subprocess.run(command, cwd=name, env=os.environ | {"PATH": path}, capture_output=True, text=True)
        if done.returncode:
            raise UpdateError(f"uv: {clean(done.stderr)[:400]}")
        return entries(done.stdout)

    def renewed(self, path: str) -> str:
        """Return the new text of a lock. Raises UpdateError where nothing fits, OSError without uv."""
        lock, new = self.git.file(path, ""), dict[str, str]()
        had, pins = entries(lock), versions(lock)
        is_asked = bool(self.asked) and path != DEVELOPMENT
        stale = {name for name, pin in pins.items() if self.was.get(name) == pin != self.image.get(name, pin)}
        asked = [f"{name}=={self.image[name]}" for name in sorted(stale)]
        asked += [self.asked] if is_asked and not (self.is_same and RUNTIME in had) else []
        if asked:
            found = self.resolve(asked, {name: pin for name, pin in (self.image | pins).items() if name not in stale})
            new = {name: entry for name, entry in found.items() if name in stale or name not in had}
        if is_asked:
            digest = hashlib.sha256(self.wheel).hexdigest()
            new[RUNTIME] = f"{RUNTIME} @ file:{self.path} \\\n    --hash=sha256:{digest}\n"
        return "".join(entry for _, entry in sorted((had | new).items()))


def renew_locks(git: Git, to_do: list[str], notes: list[str]) -> None:
    """Renew the locks in index and work tree; what failed goes into `to_do`, what changed into `notes`."""
    locks = Locks(git)
    for path in LOCKS:
        if not (old := git.file(path, "")) or (git.folder / path).is_symlink():
            continue
        try:
            new = locks.renewed(path)
        except (UpdateError, OSError) as error:
            to_do.append(f"{path}: run scripts/setup, then scripts/lock, and commit the locks ({error})")
            continue
        if new != old:
            moved = [f"{name} {pin}" for name, pin in versions(new).items() if versions(old).get(name) != pin]
            notes.append(f"{path}: {', '.join(moved) or Path(locks.path).name}")
            (git.folder / path).write_bytes(new.encode(*BYTES))
            git.text("add", "--force", "--", path)
