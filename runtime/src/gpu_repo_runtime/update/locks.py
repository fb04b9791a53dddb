"""Bring the runtime's entry in a child's locks along, and what the base image now has in another version. Nothing else.

The runtime's entry is rewritten where the new runtime has the same requirements as the old one. Otherwise uv resolves
the runtime alone, with everything else pinned as it is in the lock; it builds no package.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from email.parser import BytesParser
from pathlib import Path

from packaging.utils import canonicalize_name

from .git import Git, UpdateError, clean

RUNTIME = "gpu-repo-runtime"
DEVELOPMENT = "requirements-dev.lock"
LOCKS = ("requirements.lock", "requirements-gpu.lock", DEVELOPMENT)
WHEEL = re.compile(r"wheels/gpu_repo_runtime-([\w.+!]+)-[\w.]+-[\w.]+-[\w.]+\.whl")
ENTRY = re.compile(r"(?m)^(?=[A-Za-z0-9])")
PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
FLOOR = re.compile(r"""(?m)^requires-python\s*=\s*["']>=\s*(3\.\d+)""")
LIMIT = 300  # seconds for uv
COMPILE = (
    *("pip", "compile", "--quiet", "--universal", "--fork-strategy", "fewest"),
    *("--generate-hashes", "--no-emit-index-url", "--no-annotate", "--no-header", "--no-build"),
)


def name_of(entry: str) -> str:
    """Return the normalized name of the package of an entry."""
    return str(canonicalize_name(re.split(r"[\s\[=<>!~;@]", entry, maxsplit=1)[0]))


def versions(lock: str) -> dict[str, str]:
    """Return the versions that a lock pins, without the packages that have one for each marker."""
    pins = [(name_of(entry), found[2]) for entry in ENTRY.split(lock)[1:] if (found := PINNED.match(entry))]
    names = [name for name, _ in pins]
    return {name: version for name, version in pins if names.count(name) == 1}


def with_entries(lock: str, new: dict[str, str]) -> str:
    """Return a lock, which is sorted by package, with some entries replaced or added."""
    head, *old = ENTRY.split(lock if lock.endswith("\n") else lock + "\n")
    kept = [entry for entry in old if name_of(entry) not in new]
    return head + "".join(sorted([*kept, *new.values()], key=name_of))


def read(git: Git, path: str, at: str = ":0:./") -> bytes:
    """Return a file of the index, or of another revision, b"" where there is none."""
    done = git.run("cat-file", "blob", f"{at}{path}")
    return done.stdout if done.returncode == 0 else b""


def text(git: Git, path: str, at: str = ":0:./") -> str:
    """Return the same as text."""
    return read(git, path, at).decode("utf-8", "surrogateescape")


def required(wheel: bytes) -> list[str]:
    """Return what a wheel requires, in the words of its metadata; nothing for no wheel."""
    if not wheel:
        return []
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return sorted(BytesParser().parsebytes(archive.read(metadata)).get_all("Requires-Dist") or [])


def run_uv(words: Iterable[str], files: dict[str, bytes]) -> str:
    """Run uv in a folder with some files and return what it prints. Raises UpdateError."""
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if not uv:
        raise UpdateError("uv is not on this machine")
    with tempfile.TemporaryDirectory(prefix="update-") as name:
        folder = Path(name)
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        own = {name: value for name, value in os.environ.items() if not name.endswith("TOKEN")}
        try:
            done = subprocess.run([uv, *words], cwd=folder, env=own, capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            raise UpdateError(f"uv took longer than {LIMIT} s") from None
        if done.returncode:
            raise UpdateError(f"uv: {clean(done.stderr.decode(errors='replace'))[:400]}")
        return done.stdout.decode()


class Locks:
    """The locks of one child after an update: the index has the new runtime and constraints, HEAD the old ones."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.asked = text(git, "wheels/requirements.in")
        self.project = text(git, "pyproject.toml")
        self.under = versions(text(git, "constraints.txt"))
        self.was = versions(text(git, "constraints.txt", "HEAD:./"))
        named = {at: WHEEL.search(text(git, "wheels/requirements.in", at)) for at in (":0:./", "HEAD:./")}
        new, old = named[":0:./"], named["HEAD:./"]
        self.wheel, self.old_wheel = (found[0] if found else "" for found in (new, old))
        self.data = read(git, self.wheel) if self.wheel else b""
        self.old_data = read(git, self.old_wheel, "HEAD:./") if self.old_wheel else b""

    def renewed(self, path: str, lock: str) -> str:
        """Return the new text of a lock. Raises UpdateError where nothing fits."""
        pins, own = versions(lock), {}
        stale = {name for name, pin in pins.items() if self.was.get(name) == pin != self.under.get(name, pin)}
        runtime = bool(self.wheel) and path != DEVELOPMENT
        if runtime:
            digest = hashlib.sha256(self.data).hexdigest()
            own[RUNTIME] = f"{RUNTIME} @ file:{self.wheel} \\\n    --hash=sha256:{digest}\n"
        had = f"{RUNTIME} @ " in lock and required(self.data) == required(self.old_data)
        if not stale and (not runtime or had):
            return with_entries(lock, own) if runtime else lock
        asked = [f"{name}=={self.under[name]}" for name in sorted(stale)]
        asked += [line for line in self.asked.splitlines() if runtime and line.startswith(RUNTIME)]
        held = [f"{name}=={pin}" for name, pin in (self.under | pins).items() if name not in stale]
        files = {"asked.in": "\n".join(asked).encode(), "held.txt": "\n".join(held).encode()}
        files |= {self.wheel: self.data} if runtime else {}
        floor = FLOOR.search(self.project)
        words = [*COMPILE, "--python-version", floor[1] if floor else "3.11", "asked.in", "--constraints", "held.txt"]
        found = {name_of(entry): entry for entry in ENTRY.split(run_uv(words, files))[1:]}
        known = {name_of(entry) for entry in ENTRY.split(lock)[1:]} - stale
        return with_entries(lock, {name: entry for name, entry in found.items() if name not in known} | own)


def renew_locks(git: Git, to_do: list[str], notes: list[str]) -> dict[str, bytes]:
    """Return the new text of each lock; what failed goes into `to_do`, what changed into `notes`.

    Paths count from the child's folder.
    """
    locks, found = Locks(git), dict[str, bytes]()
    if locks.wheel and not locks.data:
        to_do.append(f"wheels/requirements.in names {locks.wheel}, which is not in git: take it from a fresh copy")
        return {}
    for path in LOCKS:
        lock = text(git, path)
        if not lock:
            continue
        try:
            new = locks.renewed(path, lock)
        except UpdateError as error:
            to_do.append(f"{path}: run scripts/setup, then scripts/lock, and commit the locks ({error})")
            continue
        if path == "requirements.lock":  # the development tools are in the same environment
            locks.was, locks.under = locks.was | versions(lock), locks.under | versions(new)
        if new != lock:
            pins = versions(lock)
            moved = [f"{name} {pin}" for name, pin in versions(new).items() if pins.get(name) != pin]
            runtime = [Path(locks.wheel).name] if locks.wheel and path != DEVELOPMENT else []
            notes.append(f"{path}: {', '.join([*runtime, *moved])}")
            found[path] = new.encode("utf-8", "surrogateescape")
    return found
