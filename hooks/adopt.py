"""Let an old repository join the family, on a branch: its files are kept, and never overwritten.

Each answer is shown with its reason and can be given instead. All of it is made in a clone; the branch appears in the
repository when everything worked, and its checkout is not touched.

Exit codes: 0 adopted; 3 adopted, and a to-do list is left; 1 rejected or failed, nothing was changed; 2 wrong usage.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
from adoption.adoption import adopt, as_json, as_text
from adoption.repository import AdoptError
from git_calls import last_line, without_password
from gpu_repo_runtime.update.git import UpdateError
from new import NewError, check_answers, questions, split

ROOT = Path(__file__).resolve().parent.parent


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", help="the repository to adopt")
    parser.add_argument(
        "--to", default="adopt-template", metavar="BRANCH", help="the new branch (default: %(default)s)"
    )
    parser.add_argument("--answer", action="append", default=[], metavar="QUESTION=ANSWER")
    parser.add_argument("--answers", default="", metavar="TEXT", help="several, as make passes them on")
    parser.add_argument("--template", default=str(ROOT), help="where updates come from (default: this clone)")
    parser.add_argument("--version", help="the template's version (default: the newest release; HEAD: as it is)")
    parser.add_argument("--dry-run", action="store_true", help="find, plan and try all of it, and write nothing")
    parser.add_argument("--json", action="store_true", help="print for a program")
    options = parser.parse_args(arguments)
    if not options.repository:
        parser.exit(2, "adopt: which repository? for example: make adopt REPO=../old\n")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Adopt a repository; return the exit code."""
    options = options_of(arguments)
    try:
        answers = options.answer + split(options.answers)
        check_answers(answers, questions(ROOT))
        given = dict(answer.split("=", 1) for answer in answers)
        place = Path(options.repository).expanduser().resolve()
        done = adopt(place, options.to, given, (options.template, options.version), options.dry_run)
    except (AdoptError, NewError, UpdateError) as error:
        reason = str(error)
    except subprocess.CalledProcessError as error:
        reason = f"git {' '.join(error.cmd[-3:])}: {last_line(error.stderr or error.stdout)}; nothing was changed"
    except OSError as error:
        reason = f"{error.filename or options.repository}: {error.strerror}; nothing was changed"
    else:
        print(without_password(as_json(done) if options.json else as_text(done)))
        return 3 if done.to_do else 0
    reason = without_password(" ".join(reason.split()))
    if options.json:
        print(json.dumps({"error": reason}, ensure_ascii=False))
    print(f"adopt: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
