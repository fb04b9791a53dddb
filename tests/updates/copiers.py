"""Copier and the programs of hooks/ and tools/, with the settings of one test and nothing of whoever runs it."""

import importlib
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import plumbum
from copier.__main__ import CopierApp

from tests.shared import ROOT as ROOT

GIT_SETTINGS = """\
[init]
defaultBranch = main
[gc]
auto = 0
[core]
fsync = none
[protocol "file"]
allow = always
"""


@dataclass(frozen=True)
class Copier:
    """Copier; `home` holds the cache and settings of one test."""

    home: Path

    def environment(self) -> dict[str, str]:
        """Return an environment that nothing of the person who runs the tests reaches."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COPIER_", "GIT_"))}
        author = {"NAME": "Owner", "EMAIL": "owner@example.com"}
        return kept | {
            "COPIER_CACHE_DIR": str(self.home / "cache"),
            "COPIER_SETTINGS_PATH": str(self.home / "settings.yml"),
            "GIT_CONFIG_GLOBAL": str(self.home / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in author.items()},
        }

    def run(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run `copier` with `arguments` in `cwd`; the exit code is the caller's to judge."""
        return run_program("copier", [str(a) for a in arguments], cwd, self.environment())


def run_program(
    program: str, arguments: list[str], cwd: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run "copier", or a program of hooks/ or tools/, in a fork, which has the imports; the caller judges the code."""
    main = CopierApp.run if program == "copier" else importlib.import_module(program).main
    with TemporaryDirectory() as folder:
        places = Path(folder, "out"), Path(folder, "err")
        if (child := os.fork()) == 0:
            be_program(main, [program, *arguments], cwd, environment, places)
        _, status = os.waitpid(child, 0)
        out, err = (place.read_text(encoding="utf-8") for place in places)
    return subprocess.CompletedProcess([program, *arguments], os.waitstatus_to_exitcode(status), out, err)


def be_program(
    main: Callable[[], object], words: list[str], cwd: Path, environment: dict[str, str], places: tuple[Path, Path]
) -> NoReturn:
    """Run the program in this process, with its output in two files, and end the process."""
    end: object = 1
    try:
        sys.stdout, sys.stderr = (place.open("w", encoding="utf-8") for place in places)
        os.dup2(sys.stdout.fileno(), 1), os.dup2(sys.stderr.fileno(), 2)
        os.chdir(cwd)
        for known in (os.environ, plumbum.local.env):  # the second is what Copier passes to git
            known.clear()
            known.update(environment)
        sys.argv = words
        warnings.simplefilter("ignore")  # Copier's, about a local template with uncommitted changes
        end = main()
    except SystemExit as error:
        end = error.code
    except BaseException:
        traceback.print_exc()
    if isinstance(end, str):
        print(end, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(end if isinstance(end, int) else int(bool(end)))


def copier_at(home: Path) -> Copier:
    """Return Copier with its private folder `home`."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "settings.yml").write_text("{}\n")
    (home / "gitconfig").write_text(GIT_SETTINGS)
    return Copier(home)
