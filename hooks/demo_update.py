"""Show an update: a merge, a file that its owner deleted, and a conflict with its solution. Run by `make demo-update`.

The template is a clone of this repository with a made-up next release; the child follows the newest real one.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
from family import types
from gpu_repo_runtime.update.git import UpdateError
from releases import order, released

ROOT = Path(__file__).resolve().parent.parent
DEMO = Path(os.environ.get("DEMO_FOLDER", ROOT / "build" / "demo-update"))
CHILD, TEMPLATE = DEMO / "demo", DEMO / "template"
AUTHOR = ("-c", "user.name=Demo", "-c", "user.email=demo@example.com", "-c", "commit.gpgSign=false")
FIX = "# a fix of the template\n"


class DemoError(Exception):
    """A step failed; the message gives which."""


def run(*command: str | Path, cwd: Path, codes: tuple[int, ...] = (0,)) -> str:
    """Run a command and return its output. Raises DemoError for an unexpected exit code."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode not in codes:
        raise DemoError(f"{' '.join(map(str, command))} failed with exit code {done.returncode}: {done.stdout}")
    return done.stdout


def say(text: str) -> None:
    """Print a step."""
    print(f"\n-- {text}", flush=True)


def change(path: Path, text: str, at_end: bool = False) -> None:
    """Add a line at the start or at the end of a file."""
    old = path.read_text(encoding="utf-8")
    path.write_text(old + text if at_end else text + old, encoding="utf-8")


def commit(folder: Path, message: str) -> None:
    """Commit everything."""
    run("git", "add", "--all", cwd=folder)
    run("git", *AUTHOR, "commit", "--quiet", "--no-verify", f"--message={message}", cwd=folder)


def make_template(project_type: str, newest: str) -> str:
    """Clone this repository and add a release that changes three files; return its name."""
    major, minor, _ = order(newest)
    name = f"{major}.{minor + 1}.0"
    run("git", "clone", "--quiet", "--no-tags", "--no-checkout", ROOT, TEMPLATE, cwd=DEMO)
    known = released(ROOT)
    run("git", "tag", f"v{newest}", known[newest], cwd=TEMPLATE)
    run("git", "checkout", "--quiet", "--detach", f"v{newest}", cwd=TEMPLATE)
    folder = TEMPLATE / "templates" / project_type
    for path in (".dockerignore.jinja", ".editorconfig.jinja"):
        change(folder / path, FIX)
    change(folder / "renovate.json.jinja", "\n", at_end=True)
    (TEMPLATE / "VERSION").write_text(f"{name}\n", encoding="utf-8")
    commit(TEMPLATE, f"Release {name}")
    run("git", "tag", f"v{name}", cwd=TEMPLATE)
    return f"v{name}"


def make_child(project_type: str, newest: str) -> None:
    """Start a child of the newest release and edit it as an owner does."""
    answers = ("--answer", "project_name=demo", "--answer", f"project_type={project_type}")
    new = (sys.executable, ROOT / "tools" / "new.py", CHILD, "--template", TEMPLATE, "--version", newest)
    run("git", "init", "--quiet", "--initial-branch=main", CHILD, cwd=DEMO)
    run(*new, *answers, cwd=DEMO)
    commit(CHILD, "Start from the template")
    change(CHILD / ".dockerignore", "# our line\n", at_end=True)
    change(CHILD / ".editorconfig", "# our line\n")
    (CHILD / "renovate.json").unlink()
    commit(CHILD, "Our edits")


def solve() -> None:
    """Resolve the conflict: keep both lines."""
    path = CHILD / ".editorconfig"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line[:7] not in ("<<<<<<<", "=======", ">>>>>>>")), "utf-8")
    run("git", "add", ".editorconfig", cwd=CHILD)
    commit(CHILD, "Update the template")


def show(project_type: str) -> None:
    """Show the update. Raises DemoError."""
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.mkdir(parents=True)
    newest = list(released(ROOT))[-1]
    say(f"a {project_type} of {newest}; its owner edits .dockerignore and .editorconfig, and deletes renovate.json")
    name = make_template(project_type, newest)
    make_child(project_type, newest)
    say(f"{name} of the template changes the same three files: scripts/update")
    update = (sys.executable, "-W", "ignore", ROOT / "hooks" / "safe_update.py")
    print(run(*update, cwd=CHILD, codes=(3,)), end="")
    say("the conflict in .editorconfig, as git shows it")
    print(run("git", "diff", "--", ".editorconfig", cwd=CHILD), end="")
    say("solved by keeping both lines, then git add and git commit")
    solve()
    print(run("git", "show", "--stat", "--format=%h %s", "HEAD", cwd=CHILD), end="")


def main() -> int:
    """Show an update; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--type", choices=list(types()), default=next(iter(types())))
    options = parser.parse_args()
    started = time.monotonic()
    try:
        show(options.type)
    except (DemoError, UpdateError) as error:
        print(f"demo-update: {error}", file=sys.stderr)
        return 1
    print(f"\nAll of it took {time.monotonic() - started:.0f} s. Look at it: cd {os.path.relpath(CHILD)} && git log -p")
    return 0


if __name__ == "__main__":
    sys.exit(main())
