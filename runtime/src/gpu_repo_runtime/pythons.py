"""Run the unit tests of a library with other Pythons, each in an environment of the locked packages below build/python.

"all" are the classifiers "Programming Language :: Python :: 3.N" of pyproject.toml. uv takes a Python of this machine,
else it downloads one where it may (UV_PYTHON_DOWNLOADS). Exit codes: 0 all passed, 1 tests failed or packages could not
be installed, 2 wrong use, 3 a Python is missing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .environment import chosen, fill, ran
from .project import described
from .script_error import ScriptError

FOLDER = Path("build/python")
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def say(message: str) -> None:
    """Say what is done, as the scripts do."""
    print(f"test: {message}", file=sys.stderr, flush=True)


def wanted(asked: str) -> list[str]:
    """Return the versions to test; none where nothing or no version was asked for."""
    if asked != "all":
        return [asked] if re.fullmatch(r"3\.\d+(\.\d+)?", asked) else []
    classifiers = described().get("classifiers", [])
    return [found[1] for one in classifiers if (found := CLASSIFIER.fullmatch(str(one)))]


def passes(uv: str, version: str, options: list[str]) -> bool:
    """Make the environment of a version and run the tests in it; return whether they pass. Raises ScriptError."""
    venv = FOLDER / version
    say(f"with Python {version}, in {venv}")
    if ran(uv, "venv", "--quiet", "--clear", "--python", version, venv):
        raise ScriptError(3, f"not tested with Python {version}: it is missing (see above)")
    fill(uv, venv, Path("requirements.lock"), chosen())
    report = f"--junit-xml=build/test-results/python-{version}.xml"
    pytest = (venv / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", report, "--ignore=tests/gpu")
    return ran(*pytest, *options) == 0


def test(uv: str, asked: str, options: list[str]) -> int:
    """Test with the versions that were asked for; return the exit code. Raises ScriptError."""
    versions = wanted(asked)
    if not versions:
        say("nothing was tested: write --python 3.12, or all with classifiers in pyproject.toml, for example")
        say('  "Programming Language :: Python :: 3.12"')
        return 0 if asked == "all" else 2
    found = {version: passes(uv, version, options) for version in versions}
    say(", ".join(f"Python {version}: {'passed' if passed else 'failed'}" for version, passed in found.items()))
    return int(not all(found.values()))
