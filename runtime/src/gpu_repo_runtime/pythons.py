"""Run the unit tests of a library with each Python that it promises, in environments of their own.

usage: pythons --uv UV [--framework PACKAGE==VERSION] VERSION|all [pytest options]

"all" are the classifiers "Programming Language :: Python :: 3.N" of pyproject.toml. The packages are the locked ones.
uv takes a Python of this machine, else it fetches one where it may (UV_PYTHON_DOWNLOADS). For scripts/test --python.
Exit codes: 0 all passed, 1 tests failed or packages could not be installed, 2 wrong use, 3 a Python is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .environment import ran, without_framework
from .project import write as write_project

FOLDER = Path("build/python")
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
PASSED, FAILED, WRONG_USE, MISSING = 0, 1, 2, 3


def say(message: str) -> None:
    """Say what is done, as the scripts do."""
    print(f"test: {message}", file=sys.stderr, flush=True)


def promised(pyproject: str) -> list[str]:
    """Return the versions that the classifiers of a pyproject.toml name, the oldest first. Raises ValueError."""
    named = tomllib.loads(pyproject).get("project", {}).get("classifiers", [])
    found = {match[1] for one in named if isinstance(one, str) and (match := CLASSIFIER.fullmatch(one))}
    return sorted(found, key=lambda version: int(version.partition(".")[2]))


@dataclass(frozen=True)
class Python:
    """One version, with the folder of its environment."""

    version: str
    uv: str
    framework: str = ""

    @property
    def folder(self) -> Path:
        """Return where its environment is; it is kept, so that the next run is quick."""
        return FOLDER / self.version

    @property
    def program(self) -> Path:
        """Return its interpreter."""
        return self.folder / "bin" / "python"

    def outcome(self, options: list[str]) -> int:
        """Make the environment and run the tests; return the exit code that this version alone would give."""
        if ran(self.uv, "venv", "--quiet", "--clear", "--python", self.version, self.folder):
            return MISSING
        if not self.install():
            return FAILED
        for packages in self.folder.glob("lib/python*/site-packages"):
            write_project(Path(), packages)
        report = f"--junit-xml=build/test-results/python-{self.version}.xml"
        pytest = (self.program, "-m", "pytest", "-q", "-p", "no:cacheprovider", report, "--ignore=tests/gpu")
        return FAILED if ran(*pytest, *options) else PASSED

    def install(self) -> bool:
        """Let the environment hold what the locks name; tell whether it does. uv has said why not."""
        text = Path("requirements.lock").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            packages = Path(folder, "packages.lock")
            packages.write_text(without_framework(text) if self.framework else text, encoding="utf-8")
            to = ("--quiet", "--python", self.program)
            if ran(self.uv, "pip", "sync", *to, "--require-hashes", packages, "requirements-dev.lock"):
                return False
        return not self.framework or not ran(self.uv, "pip", "install", *to, self.framework)


def wanted(asked: str) -> list[str]:
    """Return the versions to test. Raises ValueError with what to write."""
    if asked == "all":
        return promised(Path("pyproject.toml").read_text(encoding="utf-8"))
    if not re.fullmatch(r"3\.\d+(\.\d+)?", asked):
        raise ValueError(f"--python {asked} is not a version: take one such as 3.12, or all")
    return [asked]


def tested(pythons: list[Python], options: list[str]) -> int:
    """Run the tests with each Python, say how each ended, return the exit code of all."""
    codes = {}
    for python in pythons:
        say(f"with Python {python.version}, in {python.folder}")
        codes[python.version] = python.outcome(options)
    words = {PASSED: "passed", FAILED: "failed", MISSING: "not tested"}
    say(", ".join(f"Python {version}: {words[code]}" for version, code in codes.items()))
    if missing := [version for version, code in codes.items() if code == MISSING]:
        say(
            f"no Python {', '.join(missing)} here, and uv could not bring it: install it, let uv download it "
            "(UV_PYTHON_DOWNLOADS, UV_PYTHON_INSTALL_MIRROR), or take it out of the classifiers in pyproject.toml"
        )
    return FAILED if FAILED in codes.values() else MISSING if missing else PASSED


def main(words: list[str]) -> int:
    """Read the command line and test; return the exit code."""
    for name in ("PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV"):  # of this program
        os.environ.pop(name, None)
    parser = argparse.ArgumentParser(prog="test", add_help=False, allow_abbrev=False)
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--framework", default="")
    parser.add_argument("version", nargs="?", default="")
    asked, options = parser.parse_known_args(words)
    try:
        versions = wanted(asked.version)
    except (ValueError, OSError) as error:
        say(str(error))
        return WRONG_USE
    if not versions:
        say(
            "nothing was tested: pyproject.toml promises no Python; its classifiers may, for example "
            '"Programming Language :: Python :: 3.12"'
        )
        return PASSED
    return tested([Python(version, asked.uv, asked.framework) for version in versions], options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
