"""Adopt one old repository of a fleet, where its code and its packages' reach nothing; push nothing."""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adoption.repository import lost_lines
from gpu_repo_runtime.update.answers import SOURCE, line
from gpu_repo_runtime.update.git_calls import UpdateError, call, git, last_line, without_password
from gpu_repo_runtime.update.template_versions import template_of, version_of

from fleetkit.answers import ANSWERS, answers_in
from fleetkit.children import Child, same_place, shown
from fleetkit.isolation import Tests, files_left, passes
from fleetkit.plan import Planning, commit_tree
from fleetkit.state import ADOPTIONS, Record, State

ROOT = Path(__file__).resolve().parent.parent.parent
BRANCH = "adopt-template"
FETCHED = "refs/fleet/adopted"
PATTERN = "adoption.*"
LIMIT = 64 << 20  # bytes of the bundle, in base64: an adoption adds text files and one wheel
ADOPTED = "Adopt the template"  # how the commit and the request of an adoption begin
LONGEST, LISTED = 500, 60  # letters of one line of a request, and lines of one list: hosts take no text of any length
NO_INDEX = "Failed to fetch"  # in the words of uv
SAID = re.compile(r"(?m)^adopt: (.*)$")


@dataclass(frozen=True)
class Adopting:
    """What the repositories are to join: the address of the template, a clone of it on this machine, its version."""

    source: str
    clone: Path
    version: str

    @property
    def name(self) -> str:
        """Return what these adoptions are called."""
        return f"{ADOPTIONS}{self.version}"


def adopting(state: State, source: str, version: str) -> Adopting:
    """Fetch the template into a clone that needs no other place, as it is shown alone. Raises UpdateError."""
    clone = state.folder / "cache" / "template.git"
    shutil.rmtree(clone, ignore_errors=True)
    git(state.folder, "clone", "--quiet", "--mirror", "--dissociate", "--", str(template_of(source).place), str(clone))
    return Adopting(without_password(source), clone, version)  # it is written down in every repository


def command(child: Child, wish: Adopting) -> str:
    """Return the command that adopts a clone of the folder it runs in, and leaves a bundle and what was found.

    The clone has the repository's name, which is that of the project where no packaging has another one.
    """
    given = [part for name, value in child.answers.items() for part in ("--answer", f"{name}={value}")]
    program = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "adopt.py"), ".", "--to", BRANCH, "--json"]
    program += ["--template", str(wish.clone), "--version", wish.version, *given]
    # A template of another user is taken all the same; a setting of the environment does not reach git's other end.
    return f"""set -eu
here=$PWD work=$(mktemp -d)
export HOME=$work
git config --global safe.directory '*'
git clone --quiet . "$work"/{shlex.quote(child.name)}
cd "$work"/{shlex.quote(child.name)}
code=0
{shlex.join(program)} >"$work"/found || code=$?
[ "$code" = 0 ] || [ "$code" = 3 ] || exit 1
git bundle create --quiet "$work"/bundle {BRANCH} ^HEAD
base64 "$work"/bundle >"$here"/adoption.bundle
mv "$work"/found "$here"/adoption.json
rm -rf "$work"
"""


def joined(clone: Path, source: str) -> str:
    """Return the version of this template that a repository follows already, "" for none. Raises UpdateError."""
    text = call(clone, "show", f"HEAD:{ANSWERS}")
    if text.returncode:
        return ""
    answers = answers_in(text.stdout, ("_src_path", "_commit"))
    if not same_place(str(answers["_src_path"]), source):
        raise UpdateError(f"it follows another template, {answers['_src_path']}: two would own the same files")
    return str(answers["_commit"])


def fetch(clone: Path, left: dict[str, str]) -> str:
    """Take the adopted commit out of what the command left; return it. Raises UpdateError."""
    with TemporaryDirectory(prefix="adoption-") as folder:
        bundle = Path(folder, "bundle")
        try:
            bundle.write_bytes(base64.b64decode(left["adoption.bundle"]))
            git(clone, "fetch", "--quiet", "--no-tags", "--", str(bundle), f"+refs/heads/{BRANCH}:{FETCHED}")
        except (KeyError, binascii.Error, subprocess.CalledProcessError) as error:
            raise UpdateError("the adoption left no commit that can be read") from error
    if git(clone, "rev-list", "--parents", "-n1", FETCHED).split()[1:] != [git(clone, "rev-parse", "HEAD").strip()]:
        raise UpdateError("the adoption is not one commit on the repository's own")
    return git(clone, "rev-parse", FETCHED).strip()


def with_source(clone: Path, commit: str, source: str) -> str:
    """Return the tree of a commit, with answers that name the template as others find it."""
    text = git(clone, "show", f"{commit}:{ANSWERS}")
    named = SOURCE.sub(lambda _: line("_src_path", source), text)
    with TemporaryDirectory(prefix="index-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        git(clone, "read-tree", commit, more=index)
        blob = git(clone, "hash-object", "-w", "--no-filters", "--stdin", stdin=named).strip()
        git(clone, "update-index", "--cacheinfo", f"100644,{blob},{ANSWERS}", more=index)
        return git(clone, "write-tree", more=index).strip()


def plain(text: object) -> str:
    """Return a text of the repository for one line of a request: in no line of it can a mark of this tool stand."""
    line = " ".join(str(text).split()).replace("<!--", "<! --")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def found_in(left: dict[str, str]) -> dict[str, Any]:
    """Return what the adoption found. Raises UpdateError where it is not what the program writes."""
    try:
        found = json.loads(left["adoption.json"])
        answers = {plain(name): (plain(a["answer"]), plain(a["reason"])) for name, a in found["answers"].items()}
        files = [{"path": plain(f["path"]), "kind": plain(f["kind"]), "note": plain(f["how"])} for f in found["files"]]
        return {
            "answers": {name: {"answer": answer, "reason": reason} for name, (answer, reason) in answers.items()},
            "files": [file for file in files if file["kind"] != "same"],
            "to_know": [plain(text) for text in found["to_know"]],
            "to_do": [plain(text) for text in found["to_do"]],
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UpdateError("the adoption did not say what it found") from error


def made(state: State, child: Child, wish: Adopting, tests: Tests, log: Path) -> dict[str, str]:
    """Run the adoption and return what it left. Raises UpdateError with its own words."""
    log.unlink(missing_ok=True)
    here = (str(ROOT), str(Path(sys.prefix).resolve()), str(wish.clone))  # .venv may be a link to another place
    readable = dict.fromkeys((*tests.readable, *here))
    works = replace(tests, command=command(child, wish), readable=tuple(outermost(readable)))
    left = files_left(works, state.clone(child.name), "HEAD", log, PATTERN, LIMIT)
    if left is None:
        words = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        raise UpdateError(reason_of(words))
    return left


def reason_of(words: str) -> str:
    """Return why an adoption failed, by its log, without the place in the cell where that was."""
    said = SAID.findall(words)
    text = said[-1] if said else last_line(words) if words.strip() else "the adoption failed without a message"
    if "No space left on device" in words:
        text = f"it needs more room than it may take (--test-disk): {text}"
    return re.sub(r"/(?:\S*/)?tmp\.\w+/(\S+)", r"\1", text)


def outermost(places: Iterable[str]) -> list[str]:
    """Return the places that lie in no other of them: a folder is shown once."""
    found = sorted({Path(place) for place in places})
    return [str(place) for place in found if not any(place.is_relative_to(o) for o in found if o != place)]


def join(state: State, child: Child, wish: Adopting, tests: Tests) -> Record:
    """Adopt a repository in its clone and return what is to be remembered of it."""
    clone, log = state.clone(child.name), state.folder / "logs" / f"{child.name}.log"
    known: Record = {"adopts": wish.version, "from": "", "to": wish.name, "files": []}
    if follows := joined(clone, wish.source):
        known["from"] = follows
        if version_of(follows) is None:
            raise UpdateError(f"{ANSWERS}: _commit names no version: {follows!r}")
        return known | {"outcome": "up to date"}
    left = made(state, child, wish, tests, log)
    commit, found = fetch(clone, left), found_in(left)
    if unreachable := next((text for text in found["to_do"] if NO_INDEX in text), ""):
        raise UpdateError(f"{unreachable} (what an index needs is named with --test-env and --test-see)")
    if lost := lost_lines(clone, "HEAD", commit):
        raise UpdateError(f"lines would be lost in {', '.join(lost)}: nothing of it is offered")
    ref, message = f"refs/fleet/plan/{wish.name}", f"{ADOPTED}, version {wish.version}"
    commit = commit_tree(state, child, clone, with_source(clone, commit, wish.source), message, ref)
    patch = state.folder / "patches" / f"{child.name}.patch"
    patch.write_text(git(clone, "diff", f"{commit}^", commit), encoding="utf-8", errors="surrogateescape")
    known |= found | {"commit": commit, "patch": patch.name}
    good = not tests.command or passes(tests, clone, ref, log)
    outcome = "test failed" if not good else "to do" if found["to_do"] else "clean"
    return known | {"outcome": outcome, "log": log.name if log.exists() else ""}


def adopt_child(state: State, wish: Adopting, tests: Tests, resume: bool, child: Child) -> Record:
    """Plan the adoption of one repository and remember it; `resume` keeps what a stopped run has made already."""
    wanted = {"wanted": wish.name, "test": shown(tests.command), "given": child.answers}
    planning = Planning(state, child, wanted, resume)
    with planning.told() as record:
        if planning.due:
            record |= join(state, child, wish, tests)
    return planning.end()


KINDS = {"merged": "Yours and the template's united", "beside": "Beside yours", "kept": "Yours"}


def listed(rows: list[str]) -> list[str]:
    """Return the rows of a list, and how many there are besides."""
    return rows[:LISTED] + ([f"- and {len(rows) - LISTED} more, in the plan's report"] if len(rows) > LISTED else [])


def words_of_adoption(record: Record) -> tuple[str, str]:
    """Return title and text of the request by which a repository joins."""
    lines = [
        "This repository joins the template: every line of it stays, and later fixes of the template come as requests.",
        "", "| answer | | why |", "|---|---|---|",
    ]  # fmt: skip
    cells = [(name, a["answer"], a["reason"]) for name, a in record["answers"].items()]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells]
    for kind, title in KINDS.items():
        rows = [f"- `{file['path']}`: {file['note']}" for file in record["files"] if file["kind"] == kind]
        lines += ["", f"{title}:", "", *listed(rows)] if rows else []
    for key, title, mark in (("to_do", "To do before it works", "- [ ] "), ("to_know", "To know", "- ")):
        lines += ["", f"{title}:", "", *listed([f"{mark}{text}" for text in record[key]])] if record[key] else []
    lines += ["", "Try it on this branch: `scripts/setup && scripts/test && scripts/lint`."]
    return f"{ADOPTED}, version {record['adopts']}", "\n".join(lines)
