"""The children of a fleet that are not as most are, one of each kind, and how each of them ends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.updates.code_host import Server, Trouble
from tests.updates.tiny import TEN_LINES

TEMPLATE = "https://code.example.com/acme/family.git"
BY_SSH = "git@code.example.com:acme/family.git"
ANSWERS = ".copier-answers.yml"
LEVELS = "".join(f"{'abcdefghijk'[n]}: &{'abcdefghijk'[n]} [{f'*{chr(96 + n)}, ' * 9}]\n" for n in range(1, 10))
BOMB = f"_commit: v1.0.0\n_src_path: {TEMPLATE}\na: &a [{'x, ' * 9}]\n{LEVELS}"
CONTROL = '_commit: v1.0.0\n_src_path: "\\e]0;owned\\a\\e[2J\\x00\\u202e/elsewhere"\n'
SECONDARY = '{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}'
KILLER = """\
#!/bin/sh
# Stands for a kernel that is out of memory: it ends the worker that fetches a child named "killing".
case "$(pwd)" in *killing*)
    parent() { sed -n 's/^PPid:\\t//p' "/proc/$1/status"; }
    is_fleet() { tr '\\0' ' ' <"/proc/$1/cmdline" | grep -q 'fleet\\.py'; }
    one=$(parent $$)
    while [ "$one" -gt 1 ]; do
        above=$(parent "$one")
        if is_fleet "$one" && is_fleet "$above"; then kill -9 "$one"; exit 1; fi
        one=$above
    done ;;
esac
exec "$@"
"""


@dataclass
class Place:
    """One child on its host."""

    name: str
    bare: Path
    kind: str
    server: Server
    settings: dict[str, str]

    @property
    def project(self) -> str:
        """Return the path of the project on its host."""
        return f"acme/{self.bare.stem}"

    def git(self, *arguments: str) -> str:
        """Run git in the bare repository."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.bare, env=self.settings, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, files: dict[str, str], links: dict[str, str] | None = None) -> None:
        """Commit files, and submodules (path to commit), on the default branch."""
        index = self.settings | {"GIT_INDEX_FILE": str(self.bare / "index")}

        def run(*arguments: str, stdin: str | None = None) -> str:
            done = subprocess.run(
                ["git", *arguments], cwd=self.bare, env=index, input=stdin, check=True, capture_output=True, text=True
            )
            return done.stdout.strip()

        run("read-tree", "HEAD")
        for path, text in files.items():
            blob = run("hash-object", "-w", "--stdin", stdin=text)
            run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        for path, commit in (links or {}).items():
            run("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
        made = run("commit-tree", run("write-tree"), "-p", "HEAD", "-m", "The owner's edit")
        run("update-ref", "HEAD", made)
        (self.bare / "index").unlink()


def archive(place: Place) -> None:
    place.server.archived.add(place.project)


def empty(place: Place) -> None:
    for ref in place.git("for-each-ref", "--format=%(refname)").splitlines():
        place.git("update-ref", "-d", ref)


def move(place: Place) -> None:
    old, now = place.bare, place.bare.with_name(f"{place.bare.stem}-now.git")
    place.server.moved[place.project] = f"acme/{now.stem}"
    old.rename(now)
    old.symlink_to(now.name)
    place.bare = now


def protect(place: Place) -> None:
    place.server.protected.add(place.project)


def rename_branch(place: Place) -> None:
    place.git("branch", "-m", "main", "trunk")
    place.git("symbolic-ref", "HEAD", "refs/heads/trunk")


def collide(place: Place) -> None:
    place.write({"a.txt": "mine\n" + TEN_LINES})


def answer(text: str) -> Callable[[Place], None]:
    """Return what gives a child other answers."""
    return lambda place: place.write({ANSWERS: text})


def follow_by_ssh(place: Place) -> None:
    place.write({ANSWERS: place.git("show", f"HEAD:{ANSWERS}").replace(TEMPLATE, BY_SSH) + "\n"})


def may_read(place: Place) -> None:
    place.server.read_only.add(place.project)


def be_busy(place: Place) -> None:
    bad: Trouble = (502, {"Retry-After": "0"}, "<html>Bad Gateway</html>")
    place.server.moods[place.project] = [bad, None] * 40


def limit(place: Place) -> None:
    code = 403 if place.kind == "github" else 429
    place.server.moods[place.project] = [None, (code, {"Retry-After": "1"}, SECONDARY), None, None]


def add_submodule(place: Place) -> None:
    about = '[submodule "lib"]\n\tpath = lib\n\turl = https://nowhere.invalid/lib.git\n'
    place.write({".gitmodules": about}, {"lib": "1" * 40})


def nothing(place: Place) -> None:
    """What is odd about this one lies elsewhere: in its pipeline, its owner, or its address."""


@dataclass(frozen=True)
class Odd:
    """One odd kind: what makes it so, how its request ends, and words of the line that says why."""

    make: Callable[[Place], None]
    end: str
    words: str = ""


ODD: dict[str, Odd] = {  # the first is a canary, the next four are in the early wave of a large fleet
    "moved": Odd(move, "merged"),
    "archived": Odd(archive, "none", "its repository is archived"),
    "red-ci": Odd(nothing, "open"),
    "renamed": Odd(rename_branch, "merged"),
    "bomb": Odd(answer(BOMB), "none", "unfolds to more than"),
    "empty": Odd(empty, "none", "its repository is empty"),
    "protected": Odd(protect, "open", "not merged: "),
    "draft": Odd(collide, "draft"),
    "hanging": Odd(nothing, "none", "git clone: "),
    "killing": Odd(nothing, "none", "its worker was killed"),
    "control": Odd(answer(CONTROL), "none", "it follows another template"),
    "no-ci": Odd(nothing, "open"),
    "closed": Odd(nothing, "closed"),
    "two-requests": Odd(nothing, "merged"),
    "by-ssh": Odd(follow_by_ssh, "merged"),
    "read-only": Odd(may_read, "none", "403"),
    "busy": Odd(be_busy, "merged"),
    "secondary": Odd(limit, "merged"),
    "broken": Odd(answer("<<<<<<< HEAD\n"), "none", "restore it"),
    "submodule": Odd(add_submodule, "merged"),
}
