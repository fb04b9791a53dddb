"""Resolve the packages that a repository asks for, under the versions of its base image, into requirements*.lock.

usage: locking --image NAME [--gpu] [--requirements NAME [--project]] -- [--upgrade]
       locking ... -- --audit [--db PLACE]

pyproject.toml says what is asked for, with its extra `gpu` and its group `dev`; or NAME.in, NAME-gpu.in and NAME-dev.in
do, with --project beside pyproject.toml. scripts/lock starts it. Either all locks change or none. Exit codes: 0 done,
1 not resolved.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

UV = Path(".venv/bin/uv")
RUNTIME = Path("wheels/requirements.in")
OLDEST = 11  # the oldest Python 3 that scripts/setup takes
NO_WHEEL = re.compile(r"no (usable )?wheels|Wheels are required")
# Wheels only: the image has no compiler. No sources of uv: wheels/requirements.in names the runtime's wheel.
COMPILE = (
    *(
        "--quiet",
        "--no-sources",
        "--universal",
        "--fork-strategy",
        "fewest",
        "--no-build",
        "--generate-hashes",
        "--no-emit-index-url",
    ),
    *("--no-annotate", "--custom-compile-command", "scripts/lock"),
)


def floor() -> str:
    """Return the oldest Python that `requires-python` in pyproject.toml allows, for example 3.11."""
    try:
        required = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8-sig"))["project"]["requires-python"]
        found = re.search(r"(?:>=|==|~=)\s*3\.(\d+)", required)
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    return f"3.{max(OLDEST, int(found[1]) if found else 0)}"


ELSEWHERE = re.compile(r"@\s*((git|hg|svn|bzr)\+|file:|\.{0,2}/)")


def without_login(asked: str) -> str:
    """Return a requirement without the login in its address."""
    return re.sub(r"//[^/@]*@", "//", asked)


class NotLockedError(Exception):
    """Nothing was changed; the message says why and what to do."""


@dataclass(frozen=True)
class Locking:
    """One run: the base image, where the packages are asked for, and the caller's own options for uv."""

    image: str
    requirements: str = ""
    project: bool = False
    gpu: bool = False
    options: tuple[str, ...] = ()

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

    def check_project(self) -> None:
        """Print what no lock contains. Raises NotLockedError for a package from a folder or git: the image cannot."""
        try:
            told = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # uv says what is wrong with it
            return
        project, groups = told.get("project", {}), told.get("dependency-groups", {})
        names = [f"extra {name}" for name in project.get("optional-dependencies", {}) if name != "gpu"]
        names += [f"group {name}" for name in groups if name != "dev"]
        if names:
            what = f"no lock contains {', '.join(names)}"
            print(f"lock: {what}: use dependencies, or the group dev for tools", file=sys.stderr)
        lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values(), *groups.values()]
        named = told.get("tool", {}).get("uv", {}).get("sources", {})
        # One table, or a list of them for markers.
        sources = [(name, one) for name, some in named.items() for one in (some if isinstance(some, list) else [some])]
        lists.append([f"{name} @ file:{one['path']}" for name, one in sources if "path" in one])
        lists.append([f"{name} @ git+{one['git']}" for name, one in sources if "git" in one])
        for asked in (one for among in lists for one in among if isinstance(one, str)):
            if ELSEWHERE.search(asked):
                raise NotLockedError(
                    f"pyproject.toml asks for {without_login(asked)}: a folder or a git repository has no hash and is "
                    "not in the image. Build it as a wheel, put that into your package index and ask for its version"
                )

    def resolve(self, lock: Path, asked: list[str], under: list[str]) -> None:
        """Resolve `asked` into the file `lock`, under the versions of `under`. Raises NotLockedError."""
        constraints = [word for file in under for word in ("--constraints", file)]
        command = [str(UV), "pip", "compile", *COMPILE, "--python-version", floor()]
        done = subprocess.run(
            [*command, *constraints, *asked, *self.options, "--output-file", str(lock)],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(done.stderr, end="", file=sys.stderr)
        if done.returncode == 0:
            return
        if NO_WHEEL.search(done.stderr):
            raise NotLockedError(
                f"a package in {self.asked_in} has no wheel (see above), and the image has no compiler: ask for a "
                "version with wheels, or build its wheel once and publish it on your package index; nothing was changed"
            )
        # The base image is to blame only where the same packages resolve without its versions.
        if subprocess.run([*command, *asked, *self.options], capture_output=True, check=False).returncode:
            raise NotLockedError(
                f"{self.asked_in} cannot be resolved, with this base image or another: "
                "correct what is named above; nothing was changed"
            )
        raise NotLockedError(
            f"the packages in {self.asked_in} do not fit the base image {self.image} (versions in constraints.txt): "
            "ask for what fits, or for another image with 'scripts/update --answer framework=...' or 'gpu_driver=...'"
        )

    def run(self) -> list[str]:
        """Write all locks and return the names of those that changed. Raises NotLockedError."""
        if not self.requirements or self.project:
            self.check_project()
        with tempfile.TemporaryDirectory() as folder:
            under = ["constraints.txt"]
            for name, asked in self.locks().items():
                if Path(name).is_file():  # what it holds is kept where it fits
                    shutil.copyfile(name, Path(folder, name))
                self.resolve(Path(folder, name), asked, under)
                if name == "requirements.lock":
                    under.append(str(Path(folder, name)))
            texts = {name: Path(folder, name).read_bytes() for name in self.locks()}
        changed = [name for name, text in texts.items() if not Path(name).is_file() or Path(name).read_bytes() != text]
        for name in changed:
            Path(name).write_bytes(texts[name])
        return changed


def audited(locking: Locking, given: list[str]) -> int:
    """Look for known weaknesses in the locks that are there, and return the exit code of auditing."""
    parser = argparse.ArgumentParser(prog="scripts/lock", allow_abbrev=False)
    parser.add_argument("--audit", action="store_true", help="look for known weaknesses, change nothing")
    parser.add_argument("--db", default="", metavar="PLACE", help="a folder or zip of advisories (OSV)")
    options = parser.parse_args(given)
    from .auditing import audit

    return audit([Path(name) for name in locking.locks() if Path(name).is_file()], options.db, UV)


def main(words: list[str]) -> int:
    """Read the command line, lock, say what changed; return the exit code."""
    parser = argparse.ArgumentParser(prog="lock", add_help=False, allow_abbrev=False)
    for option in ("--image", "--requirements"):
        parser.add_argument(option, default="")
    for option in ("--project", "--gpu"):
        parser.add_argument(option, action="store_true")
    own = words.index("--")
    asked = parser.parse_args(words[:own])
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):  # of this program, not of what uv may build
        os.environ.pop(name, None)
    given = words[own + 1 :]
    locking = Locking(asked.image, asked.requirements, asked.project, asked.gpu, tuple(given))
    if "--audit" in given:
        return audited(locking, given)
    values = [word for before, word in pairwise(given) if before in ("-P", "--upgrade-package")]
    if wrong := [word for word in given if word not in values and not re.match("--upgrade|-[UP]", word)]:
        print(f"lock: unknown option {wrong[0]}: see scripts/lock --help", file=sys.stderr)
        return 2
    try:
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
