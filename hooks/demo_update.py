"""Show an update of an edited child of the release before: what is merged, what is kept. Run by `make demo-update`."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
from family import types
from releases import HistoryError, released

ROOT = Path(__file__).resolve().parent.parent
DEMO = Path(os.environ.get("DEMO_FOLDER", ROOT / "build" / "demo-update"))
AUTHOR = ("-c", "user.name=The owner", "-c", "user.email=owner@example.com", "-c", "commit.gpgSign=false")


class DemoError(Exception):
    """A step failed; the message says which."""


def run(title: str, *command: str, codes: tuple[int, ...] = (0,)) -> None:
    """Show a command, run it in the child and show what it says. Raises DemoError for an unexpected exit code."""
    shown = ["scripts/update" if part.endswith("safe_update.py") else part for part in command if part not in AUTHOR]
    shown = [part for part in shown if part not in (sys.executable, "-W", "ignore")]
    print(f"-- {title}: {' '.join(shown)}", flush=True)
    done = subprocess.run(command, cwd=DEMO if DEMO.exists() else ROOT, check=False)
    if done.returncode not in codes:
        raise DemoError(f"{title} failed with exit code {done.returncode}")


def start(project_type: str, version: str) -> None:
    """Start a child of `version` and commit it."""
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(ROOT / "tools" / "new.py"), str(DEMO), "--version", version]
    print(f"-- start: a {project_type} of version {version} in {os.path.relpath(DEMO)}", flush=True)
    answers = ["--answer", "project_name=demo", "--answer", f"project_type={project_type}"]
    done = subprocess.run([*command, *answers], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError(done.stderr.strip())
    run("commit", "git", "init", "--quiet", "--initial-branch=main")
    save("Start from the template")


def save(message: str) -> None:
    """Commit everything."""
    subprocess.run(["git", "add", "--all"], cwd=DEMO, check=True)
    subprocess.run(["git", *AUTHOR, "commit", "--quiet", "--no-verify", f"--message={message}"], cwd=DEMO, check=True)


def edit() -> None:
    """Edit what an owner edits: the model, the Dockerfile, a managed file that goes."""
    for name, line in (("src/demo/model.py", "# the owner's line\n"), ("Dockerfile", "# the owner's line\n")):
        place = DEMO / name
        if place.exists():
            place.write_text(place.read_text(encoding="utf-8") + line, encoding="utf-8")
            print(f"-- edit: a line at the end of {name}")
    (DEMO / "renovate.json").unlink(missing_ok=True)
    print("-- edit: renovate.json is deleted")
    save("The owner's edits")


def main() -> int:
    """Show an update; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--type", choices=list(types()), default=next(iter(types())))
    options = parser.parse_args()
    try:
        versions = list(released(ROOT))
        if len(versions) < 2:
            raise DemoError("there are not two releases yet to go from one to the next")
        start(options.type, versions[-2])
        edit()
        update = (sys.executable, "-W", "ignore", str(ROOT / "hooks" / "safe_update.py"))
        run("update", *update, "--to", versions[-1], codes=(0, 3, 4))
        run("what git sees", "git", "status", "--short")
    except (DemoError, HistoryError) as error:
        print(f"demo-update: {error}", file=sys.stderr)
        return 1
    print(f"\nLook at it with: cd {os.path.relpath(DEMO)} && git diff")
    return 0


if __name__ == "__main__":
    sys.exit(main())
