"""Start a repository from the family: the same as `copier copy`, but all or nothing and with one clear line on error.

The answers are asked for on a terminal; with --answer they are taken as given and the rest are the defaults.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import with_runtime  # noqa: F401

# isort: split
import yaml
from copier import load_settings
from copier.errors import CopierError
from family import asked_questions
from git_calls import call, without_password
from gpu_repo_runtime.update.git import Git, UpdateError
from gpu_repo_runtime.update.releases import Releases, find_releases
from gpu_repo_runtime.update.render import ANSWERS
from image_tools.catalog import COMPANY, ImageError, read_catalog

ROOT = Path(__file__).resolve().parent.parent


class NewError(Exception):
    """The repository cannot be started; the message says why and what to do."""


def questions(template: Path) -> list[str]:
    """Return the names of the questions that a person is asked, in their order."""
    asked = asked_questions(yaml.safe_load((template / "copier.yml").read_text(encoding="utf-8")))
    return [name for name in asked if name != "layout"]


def check_answers(answers: list[str], known: list[str]) -> None:
    """Raise NewError for an answer that is not `question=answer` or does not answer any question."""
    for answer in answers:
        name, equals, _ = answer.partition("=")
        if not equals:
            raise NewError(
                f"{answer!r} is not an answer: it needs question=answer, for example project_name=topic-finder "
                "or, with spaces, description='Find the topic'"
            )
        if name not in known:
            raise NewError(f"there is no question {name!r}: the questions are {', '.join(known)}")


def split(text: str) -> list[str]:
    """Return the answers in `text`, which are separated by spaces and may be quoted. Raises NewError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise NewError(f"a quotation mark is missing in the answers {text}") from error


def check_target(target: Path) -> None:
    """Raise NewError unless `target` is free and can be written."""
    if target.exists() and not target.is_dir():
        raise NewError(f"{target} is a file: take a folder that does not exist yet")
    if target.is_dir() and any(target.iterdir()) and not is_empty_clone(target):
        raise NewError(f"{target} is not empty: take a folder that does not exist yet, or an empty one")
    parent = target if target.is_dir() else target.parent
    if not parent.is_dir():
        raise NewError(f"{parent} does not exist: mkdir -p {parent}, or take another place")
    if not os.access(parent, os.W_OK):
        raise NewError(f"{parent} cannot be written: take another place")
    around = call(parent, "rev-parse", "--show-toplevel").stdout
    if parent != target and around:
        raise NewError(
            f"{target} is inside the git repository {os.fsdecode(around).strip()}: a project of the template is a "
            "separate repository; choose a folder outside it"
        )


def is_empty_clone(folder: Path) -> bool:
    """Return whether a folder contains nothing but a git repository without a commit, as a new remote is cloned."""
    names = [path.name for path in folder.iterdir()]
    return names == [".git"] and call(folder, "rev-parse", "--verify", "--quiet", "HEAD").returncode != 0


def check_settings() -> None:
    """Raise NewError unless Copier can read a person's settings, such as defaults for answers."""
    try:
        load_settings()
    except CopierError as error:
        file = os.environ.get("COPIER_SETTINGS_PATH", "settings.yml in Copier's folder of settings")
        why = " ".join(str(error).split()).rstrip(": ^")
        raise NewError(f"{file} cannot be used: {why}: correct or delete it") from error


def reason(output: str) -> str:
    """Return the one line that tells why Copier failed, without its traceback."""
    lines = [line.strip("| ") for line in output.splitlines() if line.strip("| ")]  # it draws a bar before git's words
    line = lines[-1] if lines else "Copier failed without a message"
    line = re.sub(r"^(Stderr: *\| *(fatal: )?|ValueError: |Validation error for question )+", "", line)
    choice = re.search(r"Invalid choice for '(\w+)': '(.*)' is not in \[(.*)\]", line)
    if choice:
        return wrong_choice(choice[1], choice[2], choice[3].replace("'", "").split(", "))
    if text := re.search(r"Not a YAML list: '(.*)'", line):
        return f"an answer that is a list needs brackets, for example ci=[github]: not {text[1]}"
    return line.removeprefix("'").replace("': ", ": ", 1)


def wrong_choice(question: str, given: str, choices: list[str]) -> str:
    """Return the line about an answer that is none of the choices; a driver between two takes the lower one."""
    line = f"{question} cannot be {given!r}: take {' or '.join(choices)}"
    lower = [choice for choice in choices if choice.isdigit() and given.isdigit() and int(choice) < int(given)]
    return f"{line}; nodes with {given} take {max(lower, key=int)}" if lower else line


def shared_address(template: str) -> str:
    """Return the address that others know `template` by: the URL its clone came from, "" where there is none."""
    if not Path(template).is_dir():
        return ""
    origin = os.fsdecode(call(Path(template), "config", "--get", "remote.origin.url").stdout).strip()
    return origin if re.match(r"(https?|ssh|git)://|[^/]+@[^/]+:", origin) else ""


def found(template: str, version: str | None, folder: Path) -> tuple[Releases | None, str | None]:
    """Return the template with its releases, and the tag to start from: `version`, else the newest release.

    None for the template where a clone is used as it is: nothing is released, or `version` is HEAD. Raises NewError.
    """
    here = (Path(template) / ".git").exists()
    if version == "HEAD" and here:
        return None, "HEAD"
    if version == "HEAD":
        raise NewError(f"VERSION=HEAD renders a clone, which {without_password(template)} is not: leave out TEMPLATE")
    try:
        releases = find_releases(template, Git(folder))
        return releases, releases.named(version)
    except UpdateError as error:
        if "has no release:" not in str(error):
            raise NewError(str(error)) from error
        if version is None and here:
            return None, None
        advice = "`make release VERSION=1.0.0` and push its tag, or VERSION=HEAD"
        raise NewError(f"{without_password(template)} has no release yet: {advice}") from error


def start(template: str, target: Path, answers: list[str], interactive: bool, version: str | None) -> str:
    """Render `template` next to `target` and move it there once it is complete; return which version it is.

    Raises NewError.
    """
    check_settings()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as name:
        folder = Path(name)
        releases, tag = found(template, version, folder)
        made = folder / target.name
        command = [sys.executable, "-W", "ignore", "-m", "copier", "copy", "--quiet"]
        command += [] if interactive else ["--defaults"]
        command += ["--vcs-ref", tag] if tag else []
        command += [part for answer in answers for part in ("--data", answer)]
        done = subprocess.run(
            [*command, str(releases.git.folder) if releases else template, str(made)],
            stderr=subprocess.PIPE, text=True, check=False, cwd=target.parent,
        )  # fmt: skip
        if done.returncode:
            raise NewError(without_password(reason(done.stderr)))
        text = (made / ANSWERS).read_text(encoding="utf-8")
        (made / ANSWERS).write_text(named(text, template), encoding="utf-8")
        if (target / ".git").exists():
            (target / ".git").rename(made / ".git")
        if target.is_dir():
            target.rmdir()
        made.rename(target)
    if releases is None:
        return " It is made from the newest commit, which is not a release, and gets its updates from this folder."
    return f" It is made from {tag}. Commits after it, and what docs/ says of them, need VERSION=HEAD."


def named(answers: str, template: str) -> str:
    """Return the answers with the address that updates come from, without a login."""
    place = Path(template).expanduser()
    source = str(place.resolve()) if place.exists() else without_password(template)
    return re.sub(r"(?m)^_src_path:.*(?:\n[ \t]+.*)*", lambda _: f"_src_path: {source}", answers)


def main() -> int:
    """Start a repository; return the exit code: 0 started, 1 refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="the folder of the new repository")
    parser.add_argument("--answer", action="append", default=[], metavar="QUESTION=ANSWER")
    parser.add_argument("--answers", default="", metavar="TEXT", help="several, as make passes them on")
    parser.add_argument("--template", default=str(ROOT), help="where children find the template (default: this clone)")
    parser.add_argument("--version", help="the template's version (default: the newest release; HEAD: as it is)")
    options = parser.parse_args()
    try:
        if not options.target:
            raise NewError("where to? for example: make new TO=../my-project")
        target = Path(os.path.abspath(Path(options.target).expanduser()))
        answers = options.answer + split(options.answers)
        read_catalog(COMPANY)
        check_answers(answers, questions(ROOT))
        check_target(target)
        interactive = not answers and sys.stdin.isatty()
        if not interactive and not any(answer.startswith("project_name=") for answer in answers):
            raise NewError('the name is missing: make new TO=... ANSWERS="project_name=topic-finder"')
        note = start(options.template, target, answers, interactive, options.version)
    except (NewError, ImageError) as error:
        print(f"new: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"new: {target} cannot be written ({error.strerror}): take another place", file=sys.stderr)
        return 1
    print(f"{target} is ready.{note} Next:\n")
    folder = shlex.quote(str(target))
    print(f'  cd {folder} && git init -b main && git add -A && git commit -m "Start from the template"')
    print("  scripts/setup\n  scripts/test")
    if shared := shared_address(options.template):
        print(f"\nIts updates come from {options.template}, which only this machine has. Where others work on it too:")
        print(f"  make new TO=... TEMPLATE={without_password(shared)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
