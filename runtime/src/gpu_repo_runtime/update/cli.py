"""Bring the fixes of the template into this repository, and lose no edit.

The update is made in a scratch work tree first; what it does to each file is shown, and only then written here.
Where the template changed the same lines as you, the file holds both between conflict markers. Where the template
renamed, dropped or switched off a file that you changed, your text is kept and the file is named.

Exit codes: 0 updated, or nothing to do; 3 updated with conflicts; 4 updated, and edits were at risk (kept, to be
looked at); 1 error, nothing was changed; 2 wrong usage. An update that was killed is finished by the next call.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn
from zipfile import BadZipFile

from .answers import read_answers
from .git_calls import UpdateError, call, git, last_line, prefix_of, without_password
from .gone import told_gone
from .outcome import Outcome
from .output import tell
from .scratch_tree import alone
from .template_versions import changes_between, version_of
from .trial import Trial, trial
from .utf8 import in_utf8
from .wheels import renew_locks, told_ejected
from .words import as_json, told
from .write_back import STOPS, Journal, journal_folder, resume, write


def write_back(trial: Trial, child: Path) -> None:
    """Write the result of the trial into the child, whole or not at all. Raises UpdateError."""
    stages = git(trial.tree, "ls-files", "--unmerged", "--full-name", "-z")
    gone = {entry.partition("\t")[2] for entry in stages.split("\0") if entry}
    cleared = "".join(f"0 {'0' * 40}\t{path}\0" for path in sorted(gone))
    files = [outcome.as_dict() for outcome in trial.outcomes]
    versions = (trial.old, trial.new.tag, trial.code)
    write(child, trial.tree, Journal(*versions, prefix_of(child), trial.paths, cleared + stages, files))


def resumed(child: Path, options: argparse.Namespace) -> int | None:
    """Finish an update that was killed and return its exit code; None where none was here. Raises UpdateError."""
    if call(child, "rev-parse", "--git-dir").returncode:
        return None
    with alone(child):
        if options.dry_run and (journal_folder(child) / "journal.json").exists():
            raise UpdateError("an update was interrupted here: run this without --dry-run first, which finishes it")
        journal = resume(child)
    if journal is None:
        return None
    finished = f"{journal.old} -> {journal.new}: the update that was interrupted is finished"
    if journal.prefix != prefix_of(child):  # another project of this repository; this one has its own update
        tell(f"update: {journal.prefix}: {finished}: look at git status", sys.stderr, written=True)
        return None
    if options.to or options.answer:
        finished += "; for another version or answer, commit it and run this again"
    files = [Outcome(**row) for row in journal.files]
    after_writing(child, told_of(journal, finished, files, options.json), options.no_lock)
    return journal.code


def told_of(journal: Journal, finished: str, files: list[Outcome], for_program: bool) -> str:
    """Return what is printed of an update that was finished later."""
    if for_program:
        return json.dumps(as_json(journal.old, journal.new, journal.code, False, files), indent=2)
    return told(finished if files else f"{finished}: look at git status", "", files, dry_run=False)


def after_writing(child: Path, text: str, no_lock: bool) -> None:
    """Tell what was written, then see to the runtime, which may take long and be stopped."""
    tell(text, sys.stdout, written=True)
    for line in of_the_runtime(child, no_lock):
        tell(line, sys.stderr, written=True)


def report(made: Trial | None, child: Path, options: argparse.Namespace) -> str:
    """Return what is printed of an update, for a person or for a program."""
    now = made.old if made else read_answers(child)["_commit"]
    if options.json:
        files = made.outcomes if made else []
        data = as_json(now, made.new.tag if made else None, made.code if made else 0, options.dry_run, files)
        return json.dumps(data, indent=2)
    if made is None:
        return f"nothing to do: {now} is the newest version"
    old = now if made.since in ("", now) or version_of(now) else f"{now} ({made.since})"
    changes = changes_between(made.new.changelog, made.since or made.old, made.new.tag)
    lines = told(f"{old} -> {made.new.tag}", changes, made.outcomes, options.dry_run)
    return f"{lines}\n\n{made.patch()}" if options.diff else lines


def of_the_runtime(child: Path, no_lock: bool) -> Iterator[str]:
    """Yield what is to be told of the runtime after an update, which is written whatever comes of this."""
    for work in (told_ejected, told_gone) if no_lock else (renew_locks, told_ejected, told_gone):
        try:
            line = work(child)
        except (OSError, ValueError, BadZipFile) as error:
            line = f"the runtime in wheels/ cannot be looked at: {last_line(str(error))}"
        if line:
            yield line


def update(child: Path, options: argparse.Namespace) -> int:
    """Update `child` as the options say, print what happened, return the exit code. Raises UpdateError."""
    code = resumed(child, options)
    if code is not None:
        return code
    with trial(child, options.to, dict(options.answer)) as made:
        text = report(made, child, options)
        if made is None or options.dry_run:
            tell(text, sys.stdout, written=False)
            return made.code if made else 0
        write_back(made, child)
        after_writing(child, text, options.no_lock)
        return made.code


def answer(text: str) -> tuple[str, str]:
    """Return question and answer of `question=answer`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not an answer: it needs question=answer")
    return name, value


def stop(number: int, _: object) -> NoReturn:
    """End on a signal as a program that first takes its scratch work tree away, whatever comes meanwhile."""
    for other in STOPS:
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> int:
    """Update the repository and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="update", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", metavar="vX.Y.Z", help="the version to update to (default: the newest)")
    parser.add_argument("--answer", type=answer, action="append", default=[], metavar="QUESTION=ANSWER")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, say the same")
    parser.add_argument("--diff", action="store_true", help="print the change of each file too")
    parser.add_argument("--no-lock", action="store_true", help="leave the locks, also where the runtime is another")
    parser.add_argument("--json", action="store_true", help="print for a program")
    parser.add_argument("--repository", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with suppress(AttributeError, ValueError):  # files are shown as they are, whatever the locale can write
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    try:
        return update((options.repository or here()).resolve(), options)
    except UpdateError as error:
        reason = without_password(str(error))
    except subprocess.CalledProcessError as error:
        words = [word for word in error.cmd[1:] if not word.startswith("-") and "=" not in word]
        reason = f"git {words[0]}: {without_password(last_line(error.stderr))}"
    except OSError as error:
        reason = f"{error.strerror}: {error.filename or here()}"
    if options.json:
        with suppress(UpdateError):
            tell(json.dumps({"code": 1, "error": reason}, indent=2), sys.stdout, written=False)
    print(f"update: {reason}", file=sys.stderr)
    return 1


def here() -> Path:
    """Return the folder that the command runs in. Raises UpdateError when it was deleted meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UpdateError("the folder that this runs in is no longer there: change to the repository") from None


def program() -> int:
    """Update as a process of its own, which takes its scratch work tree away when it is told to end."""
    in_utf8()
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):  # of this program; git's hooks are programs of the owner
        os.environ.pop(name, None)
    for number in STOPS:
        signal.signal(number, stop)
    return main()
