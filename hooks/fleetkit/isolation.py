"""Run the tests of a child where its code reaches neither this fleet nor this machine (docs/fleet.md, threat model).

As root, they run as another user in namespaces of their own; without root, in a user namespace. Where the kernel
allows neither, nothing is run.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from gpu_repo_runtime.update.git_calls import git
from gpu_repo_runtime.update.template_versions import last_line

from fleetkit.children import FleetError
from fleetkit.git_rules import AUTHOR, guard

CELL = Path(__file__).with_name("cell.py")
FIRST_USER, USERS = 61184, 4000  # the range that systemd keeps for users that exist for one service only
LOG_LIMIT = 4 << 20  # bytes of a child's words that are kept
GRACE_SECONDS = 60.0  # for the copy of the tree, before and beside the limit of the tests
WAYS = {"user": "as another user", "namespace": "in a user namespace"}
PASSED_ON = ("LANG", "LC_ALL", "TZ")


@dataclass(frozen=True)
class Limits:
    """What the tests of one child may take: seconds, and bytes of memory and of files."""

    seconds: float = 1800
    memory: int = 8 << 30
    disk: int = 8 << 30


@dataclass(frozen=True)
class Tests:
    """The children's own tests: a command (None for none), its limits and what of this machine it may see."""

    command: str | None
    limits: Limits = Limits()
    way: str = "user"
    readable: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()  # the variables with the tokens of the hosts, for tests that are not isolated


def environment(tests: Tests) -> dict[str, str]:
    """Return the variables of the tests: none of this process but the language and those that were named."""
    given = {name: os.environ[name] for name in (*PASSED_ON, *tests.variables) if name in os.environ}
    path = [os.environ.get("PATH", os.defpath), str(Path(sys.base_prefix, "bin"))]
    return {"PATH": ":".join(path), "HOME": "/cell/home", "TMPDIR": "/cell/tmp"} | AUTHOR | given


@dataclass(frozen=True)
class Left:
    """Which files of its top folder a command is to leave, how long each may be, and where they are written to."""

    pattern: str
    limit: int
    into: Path


def start(tests: Tests, tree: Path, place: Path, left: Left | None = None) -> subprocess.Popen[bytes]:
    """Start the tests on a copy of `tree`; `place` is an empty folder that the cell takes as its root."""
    with left.into.open("wb") if left else contextlib.nullcontext() as out:
        taken = {"take": left.pattern, "take_limit": left.limit, "take_into": out.fileno()} if left and out else {}
        return start_with(tests, tree, place, taken, (out.fileno(),) if out else ())


def start_with(
    tests: Tests, tree: Path, place: Path, taken: dict[str, Any], files: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """Start the cell with its orders; `files` are the open files that it gets, none of them the command's."""
    as_user = tests.way == "user"
    spec = {
        "command": tests.command,
        "tree": str(tree),
        "root": str(place),
        "readable": [sys.base_prefix, *tests.readable],
        "disk": tests.limits.disk,
        "memory": tests.limits.memory,
        "seconds": tests.limits.seconds,
        "uid": FIRST_USER + os.getpid() % USERS if as_user else None,
        "environment": environment(tests),
    } | taken
    apart = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    apart += [] if as_user else ["--user", "--map-root-user"]
    python = str(Path(sys.base_prefix, "bin", "python3"))
    command = ["setpriv", "--pdeathsig=KILL", *apart, python, "-I", str(CELL)]
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    job = subprocess.Popen(
        command, env=path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=files
    )
    assert job.stdin is not None
    with contextlib.suppress(BrokenPipeError), job.stdin as told:  # its own words say why it ended
        told.write(json.dumps(spec).encode())
    return job


def keep_words(words: IO[bytes], log: Path) -> None:
    """Write what comes into `log`, the first LOG_LIMIT bytes of it, and let the rest go."""
    left = LOG_LIMIT
    with log.open("ab") as out:
        while piece := os.read(words.fileno(), 1 << 16):
            out.write(piece[:left])
            left -= len(piece[:left])
        if not left:
            out.write(b"\n[more was printed and is not kept]\n")


def run_apart(tests: Tests, tree: Path, log: Path, left: Left | None = None) -> int:
    """Run the tests on a copy of `tree` and return their exit code; `log` holds their words."""
    with TemporaryDirectory(prefix="cell-") as folder:
        job = start(tests, tree, Path(folder), left)
        assert job.stdout is not None
        reader = threading.Thread(target=keep_words, args=(job.stdout, log), daemon=True)
        reader.start()
        try:
            return job.wait(timeout=tests.limits.seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return 1
        finally:
            job.kill()
            job.wait()
            reader.join(timeout=10)


@cache
def why_not(way: str, readable: tuple[str, ...] = ()) -> str:
    """Return why tests cannot be isolated in this `way`; nothing where they can."""
    if way == "user" and os.geteuid() != 0:
        return "this is not root"
    for program in ("setpriv", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian: util-linux)"
    with TemporaryDirectory(prefix="cell-") as folder:
        tree, log = Path(folder, "tree"), Path(folder, "log")
        tree.mkdir()
        code = run_apart(Tests("true", Limits(seconds=30), way, readable), tree, log)
        return "" if code == 0 else last_line(log.read_text(encoding="utf-8", errors="replace"))


def choose_way(readable: Iterable[str]) -> str:
    """Return how tests are isolated on this machine. Raises FleetError where they cannot be."""
    seen = tuple(readable)
    for folder in seen:
        if not Path(folder).is_absolute() or not Path(folder).exists():
            raise FleetError(f"--test-see {folder}: it needs the absolute path of something that exists")
    reasons = []
    for way in WAYS:
        reason = why_not(way, seen)
        if not reason:
            return way
        reasons.append(f"{WAYS[way]}: {reason}")
    raise FleetError(
        f"the children's tests cannot be kept apart from this machine ({'; '.join(reasons)}): run as root or allow "
        "user namespaces, leave --test out, or let tests reach all that you can reach with --tests-without-isolation"
    )


def export(clone: Path, ref: str, tree: Path) -> None:
    """Make `tree` a repository of its own with the one commit that `ref` names; nothing in it leads to the clone."""
    git(tree.parent, "init", "--quiet", str(tree))
    guard(tree)
    git(tree, "fetch", "--quiet", "--no-tags", "--depth=1", f"file://{clone}", ref)
    git(tree, "config", "core.symlinks", "true")
    git(tree, "checkout", "--quiet", "-B", "main", "FETCH_HEAD")
    (tree / ".git" / "FETCH_HEAD").unlink()


def run_here(tests: Tests, tree: Path, log: Path) -> int:
    """Run the tests as this user, with everything that it reaches, but for the tokens of the hosts."""
    visible = {name: value for name, value in os.environ.items() if name not in tests.hidden}
    command = ["timeout", "--kill-after=5", str(tests.limits.seconds), "bash", "-c", tests.command or "true"]
    with log.open("ab") as out:
        return subprocess.run(command, cwd=tree, env=visible, stdout=out, stderr=out, check=False).returncode


def files_left(tests: Tests, clone: Path, ref: str, log: Path, pattern: str, limit: int) -> dict[str, str] | None:
    """Run a command on the commit that `ref` names; return the files of its top folder that match, None if it fails.

    They are the words of the child, to be looked at before they are used.
    """
    with TemporaryDirectory(prefix="tests-") as folder:
        tree, into = Path(folder, "tree"), Path(folder, "left")
        export(clone, ref, tree)
        if tests.way != "none":
            done = run_apart(tests, tree, log, Left(pattern, limit, into)) == 0
            return dict(json.loads(into.read_text(encoding="utf-8"))) if done else None
        if run_here(tests, tree, log):
            return None
        plain = [place for place in sorted(tree.glob(pattern)) if place.is_file() and not place.is_symlink()]
        short = [place for place in plain if place.stat().st_size <= limit]
        return {place.name: place.read_text(encoding="utf-8", errors="replace") for place in short}


def passes(tests: Tests, clone: Path, ref: str, log: Path) -> bool:
    """Run the child's own tests on the commit that `ref` names; return whether they pass within their limits."""
    with TemporaryDirectory(prefix="tests-") as folder:
        tree = Path(folder, "tree")
        export(clone, ref, tree)
        return (run_here if tests.way == "none" else run_apart)(tests, tree, log) == 0
