"""Let an old repository join the family, on a branch of its own: what is there is kept, and never overwritten.

What is found is shown with its reason, and each answer can be given instead. All of it is made in a clone; the branch
appears in the repository when everything worked, and its checkout is not touched.

Exit codes: 0 adopted; 3 adopted, and something is left to do, which is listed; 1 refused or failed, nothing was
changed; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import runtime_source  # noqa: F401

# isort: split
from adoption.adopting import Wish, adopt
from adoption.repository import AdoptError
from adoption.texts import masked
from adoption.words import as_json, told
from gpu_repo_runtime.update.git_calls import UpdateError
from gpu_repo_runtime.update.utf8 import in_utf8
from new import NewError, check_answers, questions, split

ROOT = Path(__file__).resolve().parent.parent
OF_A_REPOSITORY = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE",
)  # fmt: skip


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", help="the repository to adopt")
    parser.add_argument(
        "--to", default="adopt-template", metavar="BRANCH", help="the new branch (default: %(default)s)"
    )
    parser.add_argument("--answer", action="append", default=[], metavar="QUESTION=ANSWER")
    parser.add_argument("--answers", default="", metavar="TEXT", help="several, as make passes them on")
    parser.add_argument(
        "--take", default="", metavar="PATHS", help="yours go to NAME.before, the template's take their place"
    )
    parser.add_argument(
        "--template", default=str(ROOT), help="where the repository finds the template (default: this clone)"
    )
    parser.add_argument("--version", help="the template's version (default: the newest release; HEAD: as it is)")
    parser.add_argument("--dry-run", action="store_true", help="find, plan and try all of it, and write nothing")
    parser.add_argument("--json", action="store_true", help="the same for a program")
    return parser.parse_args(arguments)


def refused(why: str, as_object: bool) -> int:
    """Say why nothing was adopted, as an object too where a program asked; return the exit code."""
    why = masked(" ".join(why.splitlines()))
    if as_object:
        print(json.dumps({"error": why}, ensure_ascii=False))
    print(f"adopt: {why}", file=sys.stderr)
    return 1


@contextmanager
def passing_files() -> Iterator[None]:
    """Let all passing files lie in one folder that is taken away, those of Copier too, which is another process."""
    before = os.environ.get("TMPDIR")
    with TemporaryDirectory(prefix="adopt-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
        try:
            yield
        finally:
            os.environ.pop("TMPDIR")
            os.environ |= {"TMPDIR": before} if before is not None else {}
            tempfile.tempdir = None


def main(arguments: list[str] | None = None) -> int:
    """Adopt a repository; return the exit code."""
    options = options_of(arguments)
    if not options.repository:
        print("adopt: which repository? for example: make adopt REPO=../old", file=sys.stderr)
        return 2
    try:
        answers = options.answer + split(options.answers)
        check_answers(answers, questions(ROOT))
        given = dict(answer.split("=", 1) for answer in answers)
        place = Path(os.path.abspath(os.path.expanduser(options.repository)))
        wish = Wish(place, options.to, given, frozenset(options.take.split()), options.template, options.version)
        with passing_files():
            done = adopt(wish, options.dry_run)
    except (AdoptError, NewError, UpdateError) as error:
        return refused(str(error), options.json)
    except OSError as error:
        return refused(f"{error.filename or options.repository}: {error.strerror}; nothing was changed", options.json)
    except KeyboardInterrupt:
        refused("stopped; nothing was changed", options.json)
        return 128 + signal.SIGINT
    print(as_json(done, options.dry_run) if options.json else told(done, options.dry_run))
    return 3 if done.open else 0


def apart() -> None:
    """Let git work on the repositories that it is told of, where a hook of another one runs this, and run no hook."""
    for name in OF_A_REPOSITORY:
        os.environ.pop(name, None)
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    os.environ |= {f"GIT_CONFIG_KEY_{count}": "core.hooksPath", f"GIT_CONFIG_VALUE_{count}": os.devnull}
    os.environ["GIT_CONFIG_COUNT"] = str(count + 1)


def stop(number: int, frame: FrameType | None) -> None:
    """End as by Ctrl-C, which takes away what lies in the folder for passing files."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    in_utf8()
    apart()
    signal.signal(signal.SIGTERM, stop)
    sys.exit(main())
