"""Which calls of a program go up: to a module that builds on the one that calls it.

Run as `python -m tests.updates.walk EDGES PROGRAM ARGUMENTS ...`: it runs a program of hooks/ and writes every pair of
modules between which there was a call, its workers' too.
"""

from __future__ import annotations

import ast
import os
import runpy
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLACES = {"hooks": ROOT / "hooks", "runtime": ROOT / "runtime" / "src", "tools": ROOT / "tools"}
IMAGES = ROOT / "base-images"


def module_of(file: str) -> str:
    """Return the name by which a file of ours is imported, nothing for what is not ours."""
    for place in (*PLACES.values(), IMAGES):
        if file.startswith(f"{place}{os.sep}") and file.endswith(".py"):
            return file[len(str(place)) + 1 : -3].replace(os.sep, ".").removesuffix(".__init__")
    return ""


class Walk:
    """The calls between modules of ours, each once; what lies between them may be a library."""

    def __init__(self, into: Path) -> None:
        self.into, self.seen, self.names = into, set[tuple[str, str, str]](), dict[str, str]()

    def name(self, frame: FrameType) -> str:
        file = frame.f_code.co_filename
        if file not in self.names:
            self.names[file] = module_of(file)
        return self.names[file]

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take note of a call; an import is none."""
        if event != "call" or not (callee := self.name(frame)) or frame.f_code.co_name == "<module>":
            return
        above = frame.f_back
        while above is not None and not self.name(above):
            above = above.f_back
        if above is not None and above.f_code.co_name != "<module>":
            self.note(self.name(above), callee, frame.f_code.co_name)

    def note(self, caller: str, callee: str, function: str) -> None:
        """Write a pair down, once."""
        call = (caller, callee, function)
        if caller != callee and call not in self.seen:
            self.seen.add(call)
            with self.into.open("a", encoding="utf-8") as out:
                out.write(f"{caller} {callee} {function}\n")

    def handed_over(self, work: Any) -> None:
        """Take note of work for another thread or process, as a call by whoever hands it over."""
        while isinstance(work, partial):
            work = work.func
        code = getattr(work, "__code__", None) or getattr(type(work).__call__, "__code__", None)
        above: FrameType | None = sys._getframe(2)
        while above is not None and not self.name(above):
            above = above.f_back
        if above is not None and code is not None and (callee := module_of(code.co_filename)):
            self.note(self.name(above), callee, code.co_name)


def watch_pools(walk: Walk) -> None:
    """Take note of what goes to pools, and of what their workers start with."""
    for pool in (ThreadPoolExecutor, ProcessPoolExecutor):

        def submit(self: Any, work: Any, *given: Any, original: Any = pool.submit, **more: Any) -> Any:
            walk.handed_over(work)
            return original(self, work, *given, **more)

        def start(self: Any, *given: Any, original: Any = pool.__init__, **more: Any) -> None:
            for one in (*given, *more.values()):
                if callable(one):
                    walk.handed_over(one)
            original(self, *given, **more)

        pool.submit = submit  # type: ignore[method-assign]
        pool.__init__ = start  # type: ignore[method-assign]


def imports() -> dict[str, set[str]]:
    """Return for each module of ours those that it imports anywhere."""
    files = {module_of(str(file)): file for place in (*PLACES.values(), IMAGES) for file in place.rglob("*.py")}
    found = {}
    for name, file in files.items():
        taken = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                taken |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                taken |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[name] = (taken & files.keys()) - {name}
    return found


def below(name: str, taken: dict[str, set[str]]) -> set[str]:
    """Return all modules that one builds on."""
    found, left = set[str](), [name]
    while left:
        new = taken.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def climbs(edges: Path) -> list[str]:
    """Return the calls that go up, as `caller -> callee (function)`."""
    taken, told = imports(), []
    for line in edges.read_text(encoding="utf-8").splitlines():
        caller, callee, function = line.split(" ")
        if caller in below(callee, taken):
            told.append(f"{caller} -> {callee} ({function})")
    return sorted(set(told))


def main() -> None:
    """Run a program and take note of its calls."""
    into, program, *arguments = sys.argv[1:]
    sys.argv = [program, *arguments]
    sys.path[:0] = [str(place) for place in (*PLACES.values(), IMAGES)]
    walk = Walk(Path(into))
    watch_pools(walk)
    threading.setprofile(walk)
    sys.setprofile(walk)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
