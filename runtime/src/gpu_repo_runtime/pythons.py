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
from pathlib import Path

from .environment import ran, without_framework
from .project import write as write_project

FOLDER = Path("build/python")
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
PASSED, FAILED, WRONG_USE, MISSING = 0, 1, 2, 3
WORDS = {PASSED: "passed", FAILED: "failed", MISSING: "not tested"}


def say(message: str) -> None:
    """Say what is done, as the scripts do."""
    print(f"test: {message}", file=sys.stderr, flush=True)


def wanted(asked: str) -> list[str]:
    """Return the versions to test, the oldest first; none where nothing or no version was asked for."""
    if asked != "all":
        return [asked] if re.fullmatch(r"3\.\d+(\.\d+)?", asked) else []
    named = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8")).get("project", {}).get("classifiers", [])
    found = {match[1] for one in named if (match := CLASSIFIER.fullmatch(str(one)))}
    return sorted(found, key=lambda version: int(version.partition(".")[2]))


def outcome(uv: str, version: str, framework: str, options: list[str]) -> int:
    """Make the environment of a version and run the tests in it; return the exit code that it alone would give."""
    say(f"with Python {version}, in {FOLDER / version}")
    python = FOLDER / version / "bin" / "python"
    if ran(uv, "venv", "--quiet", "--clear", "--python", version, FOLDER / version):
        return MISSING
    text = Path("requirements.lock").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder, "packages.lock")
        packages.write_text(without_framework(text) if framework else text, encoding="utf-8")
        locks = ("--require-hashes", packages, "requirements-dev.lock")
        if ran(uv, "pip", "sync", "--quiet", "--python", python, *locks):
            return FAILED
    if framework and ran(uv, "pip", "install", "--quiet", "--python", python, framework):
        return FAILED
    for site in (FOLDER / version).glob("lib/python*/site-packages"):
        write_project(Path(), site)
    report = f"--junit-xml=build/test-results/python-{version}.xml"
    pytest = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", report, "--ignore=tests/gpu")
    return FAILED if ran(*pytest, *options) else PASSED


def main(words: list[str]) -> int:
    """Read the command line and test; return the exit code."""
    for name in ("PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV"):  # of this program
        os.environ.pop(name, None)
    parser = argparse.ArgumentParser(prog="test", add_help=False, allow_abbrev=False)
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--framework", default="")
    parser.add_argument("version", nargs="?", default="")
    asked, options = parser.parse_known_args(words)
    versions = wanted(asked.version)
    if not versions:
        say("nothing was tested: write --python 3.12, or all with classifiers in pyproject.toml such as")
        say('  "Programming Language :: Python :: 3.12"')
        return PASSED if asked.version == "all" else WRONG_USE
    codes = {version: outcome(asked.uv, version, asked.framework, options) for version in versions}
    say(", ".join(f"Python {version}: {WORDS[code]}" for version, code in codes.items()))
    return max(codes.values(), key=[PASSED, MISSING, FAILED].index)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
