"""Resolve the packages that a repository asks for, under the versions of its base image, into requirements*.lock.

usage: locking [--uv UV] --image NAME [--gpu] [--requirements NAME [--project]] -- [--upgrade]
       locking ... -- --audit

pyproject.toml says what is asked for, with its extra `gpu` and its group `dev`; or NAME.in, NAME-gpu.in and NAME-dev.in
do, with --project beside pyproject.toml. scripts/lock starts it. Either all locks change or none. Exit codes: 0 done,
1 not resolved.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from .package_index import fault

RUNTIME = Path("wheels/requirements.in")
OLDEST = 11  # the oldest Python 3 that scripts/setup takes
ELSEWHERE = re.compile(r"@\s*((git|hg|svn|bzr)\+|file:|\.{0,2}/)")
PIP_AUDIT = ("pip-audit==2.10.1", "-S", "--disable-pip", "--require-hashes", "--progress-spinner=off", "-r/dev/stdin")
# The runtime lies in wheels/ and on no index, so that no database knows it.
OWN_WHEEL = re.compile(r"(?m)^\S+ @ file:.*\n(?: +--hash=.*\n)+|^(?:\./)?wheels/.*\n(?: +--hash=.*\n)+")
OPTION = re.compile("--audit$|--upgrade|-[UP]")
# Wheels only: the image has no compiler. No sources of uv: wheels/requirements.in names the runtime's wheel.
COMPILE = (
    *("--quiet", "--no-sources", "--universal", "--no-build", "--generate-hashes", "--no-emit-index-url"),
    *("--fork-strategy", "fewest", "--no-annotate", "--custom-compile-command", "scripts/lock"),
)


class NotLockedError(Exception):
    """Nothing was changed; the message says why and what to do."""


def pyproject(place: Path = Path("pyproject.toml")) -> dict[str, Any]:
    """Return what a pyproject.toml contains, {} where it cannot be read: uv says what is wrong with it."""
    try:
        return tomllib.loads(place.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return {}


def floor(place: Path = Path("pyproject.toml")) -> str:
    """Return the oldest Python that `requires-python` in a pyproject.toml allows, for example 3.11."""
    requires = pyproject(place).get("project", {}).get("requires-python", "")
    found = re.search(r"(?:>=|==|~=)\s*3\.(\d+)", str(requires))
    return f"3.{max(OLDEST, int(found[1]) if found else 0)}"


def check_project() -> None:
    """Print what no lock contains. Raises NotLockedError for a package from a folder or git."""
    told = pyproject()
    project, groups = told.get("project", {}), told.get("dependency-groups", {})
    extras = project.get("optional-dependencies", {})
    if rest := [f"extra {one}" for one in extras if one != "gpu"] + [f"group {one}" for one in groups if one != "dev"]:
        print(f"lock: no lock contains {', '.join(rest)}: use dependencies, or the group dev", file=sys.stderr)
    lists = (project.get("dependencies", []), *extras.values(), *groups.values())
    asked = [one for among in lists for one in among if isinstance(one, str)]
    for name, some in told.get("tool", {}).get("uv", {}).get("sources", {}).items():
        for one in some if isinstance(some, list) else [some]:  # a list of them for markers
            asked += [f"{name} @ {at}{one[key]}" for key, at in (("git", "git+"), ("path", "file:")) if key in one]
    if found := next(filter(ELSEWHERE.search, asked), None):
        raise NotLockedError(
            f"pyproject.toml requires {re.sub('//[^/@]*@', '//', found)}: a folder or a git repository has no hash and "
            "is not in the image. Build it as a wheel, put that into your package index and ask for its version"
        )


def in_wheels() -> list[str]:
    """Return the names of the packages in wheels/, as locks write them."""
    return sorted({re.sub("[-_.]+", "-", wheel.name.split("-")[0]).lower() for wheel in Path("wheels").glob("*.whl")})


def without_hashes(lock: str, names: list[str]) -> str:
    """Return a lock without the hashes of these packages, so that uv reads them again and keeps the version."""
    return re.sub(rf"(?m)^((?:{'|'.join(names)})==.*) \\\n(?: +--hash=.*\n)+", r"\1\n", lock)


@dataclass(frozen=True)
class Locking:
    """One run: the base image, where the packages are asked for, and the caller's own options for uv."""

    image: str
    requirements: str = ""
    project: bool = False
    gpu: bool = False
    options: tuple[str, ...] = ()
    uv: Path = Path(".venv/bin/uv")

    @property
    def asked_in(self) -> str:
        """Return the file that asks for the packages."""
        return f"{self.requirements}.in" if self.requirements else "pyproject.toml"

    def locks(self) -> dict[str, list[str]]:
        """Return each lock with what is resolved into it."""
        named = self.requirements
        asked = [*(["pyproject.toml"] if named and self.project else []), self.asked_in]
        asked += [str(RUNTIME)] if RUNTIME.is_file() else []
        more = {"requirements.lock": asked}
        if self.gpu:
            more["requirements-gpu.lock"] = [*asked, *([f"{named}-gpu.in"] if named else ["--extra", "gpu"])]
        return more | {"requirements-dev.lock": [f"{named}-dev.in"] if named else ["--group", "dev"]}

    def resolve(self, lock: Path, asked: list[str], under: list[str]) -> None:
        """Resolve `asked` into the file `lock`, under the versions of `under`. Raises NotLockedError; uv says why."""
        constraints = [word for file in under for word in ("--constraints", file)]
        command = [str(self.uv), "pip", "compile", *COMPILE, "--python-version", floor()]
        command += [*constraints, *asked, *self.options, "--output-file", str(lock)]
        if subprocess.run(command, check=False).returncode:
            raise NotLockedError(
                fault()
                or f"nothing was changed: {self.asked_in} cannot be resolved (see above). It needs wheels, and "
                f"versions that fit the base image {self.image} (constraints.txt). Ask for others, or for another "
                "image with 'scripts/update --answer framework=...' or 'gpu_driver=...'"
            )

    def run(self) -> list[str]:
        """Write all locks and return the names of those that changed. Raises NotLockedError."""
        if not self.requirements or self.project:
            check_project()
        with tempfile.TemporaryDirectory() as folder:
            under = ["constraints.txt"]
            for name, asked in self.locks().items():
                if Path(name).is_file():  # what it holds is kept where it fits
                    kept = without_hashes(Path(name).read_text(encoding="utf-8"), in_wheels())
                    Path(folder, name).write_text(kept, encoding="utf-8")
                self.resolve(Path(folder, name), asked, under)
                if name == "requirements.lock":
                    under.append(str(Path(folder, name)))
            texts = {name: Path(folder, name).read_bytes() for name in self.locks()}
        changed = [name for name, text in texts.items() if not Path(name).is_file() or Path(name).read_bytes() != text]
        for name in changed:
            Path(name).write_bytes(texts[name])
        return changed

    def audit(self) -> int:
        """Print the known vulnerabilities of each lock, return 1 if there are any. Raises NotLockedError."""
        found = 0
        for lock in filter(Path.is_file, map(Path, self.locks())):
            print(f"lock: auditing {lock}", file=sys.stderr, flush=True)
            text = OWN_WHEEL.sub("", lock.read_text(encoding="utf-8"))
            command = [str(self.uv), "tool", "run", *PIP_AUDIT]
            done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode and not done.stdout:
                raise NotLockedError(f"{lock} was not checked: pip-audit reached no database (see above)")
            print(done.stdout, end="")
            found |= done.returncode
        return found


def main(words: list[str]) -> int:
    """Read the command line, lock, say what changed; return the exit code."""
    parser = argparse.ArgumentParser(prog="lock", add_help=False, allow_abbrev=False)
    for option in ("--image", "--requirements"):
        parser.add_argument(option, default="")
    for option in ("--project", "--gpu"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--uv", type=Path, default=Locking.uv)
    own = words.index("--")
    asked = parser.parse_args(words[:own])
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):  # of this program, not of what uv may build
        os.environ.pop(name, None)
    given = words[own + 1 :]
    values = [word for before, word in pairwise(given) if before in ("-P", "--upgrade-package")]
    if wrong := [word for word in given if word not in values and not OPTION.match(word)]:
        print(f"lock: unknown option {wrong[0]}: see scripts/lock --help", file=sys.stderr)
        return 2
    locking = Locking(asked.image, asked.requirements, asked.project, asked.gpu, tuple(given), asked.uv)
    try:
        if "--audit" in given:
            return locking.audit()
        changed = locking.run()
    except NotLockedError as error:
        print(f"lock: {error}", file=sys.stderr)
        return 1
    for name in changed:
        print(f"lock: {name} changed", file=sys.stderr)
    print("lock: done; next: scripts/setup", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
