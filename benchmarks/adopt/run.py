"""How `make adopt` does on public repositories: what is lost (nothing), and whether updates arrive afterwards.

usage: python -m benchmarks.adopt.run MIRRORS [OWNER/NAME...]

Each repository of repositories.yml is taken from a folder of bare clones (MIRRORS/OWNER+NAME/repo) at its commit, and
adopted with the answers that are found. Then: an update to the same version, which has to change nothing, one to a
later release, and scripts/setup. Writes benchmarks/adopt/result.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks import ROOT
from benchmarks.harness import as_json, machine
from tests.conftest import git
from tests.updates.copiers import copier_at
from tests.updates.family import Family, clone_family

RESULT = Path(__file__).with_name("result.json")


def python(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a Python program of this repository."""
    return subprocess.run([sys.executable, "-W", "ignore", *command], capture_output=True, text=True, check=False)


def snapshot(mirrors: Path, entry: dict[str, str], target: Path) -> int:
    """Make a repository of one commit with the files of the pinned commit that the store holds; return their number."""
    store = mirrors / entry["name"].replace("/", "+") / "repo"
    target.mkdir(parents=True)
    index = {**os.environ, "GIT_INDEX_FILE": str(target.parent / f"{target.name}.index")}
    subprocess.run(["git", f"--git-dir={store}", "read-tree", entry["commit"]], check=True, env=index)
    command = ["git", f"--git-dir={store}", f"--work-tree={target}", "checkout-index", "--all", "--force"]
    subprocess.run(command, check=False, env=index, capture_output=True)  # large files are not in the store
    git(target, "init", "--quiet", "--initial-branch", "main")
    git(target, "config", "user.name", "owner")
    git(target, "config", "user.email", "owner@example.com")
    git(target, "add", "--all", "--force")
    git(target, "commit", "--quiet", "--message", "As it was")
    return len(git(target, "ls-files", "-z").split("\0")) - 1


def lost(folder: Path, before: str, after: str) -> int:
    """Return how many lines of `before` are not in `after`; counted by git, not by the program."""
    options = ["--numstat", "--minimal", "--no-renames", "--diff-filter=a", "--ignore-space-at-eol"]
    rows = [row.split("\t")[1] for row in git(folder, "diff", *options, before, after).splitlines()]
    return sum(1 if row == "-" else int(row) for row in rows)  # "-" is a binary file that changed


def measure(entry: dict[str, str], mirrors: Path, family: Family, folder: Path) -> dict[str, object]:
    """Adopt one repository and return what was seen."""
    repository = folder / entry["name"].split("/")[1]
    result: dict[str, object] = {**entry, "files": snapshot(mirrors, entry, repository)}
    spent = sum(os.times()[2:4])  # processor time of the programs that ended
    template = "--template", family.path, "--version", family.work_tree
    done = python(ROOT / "hooks/adopt.py", repository, "--json", *template)
    result |= {"exit": done.returncode, "cpu_s": round(sum(os.times()[2:4]) - spent, 1)}
    if done.returncode not in (0, 3):
        return result | {"refused": done.stderr.strip()[-600:]}
    told = json.loads(done.stdout)
    result |= {"answers": {name: answer["value"] for name, answer in told["answers"].items()},
               "to_do": told["to_do"], "to_know": len(told["to_know"])}  # fmt: skip
    result["lost_lines"] = lost(repository, "main", "adopt-template")
    git(repository, "switch", "--quiet", "adopt-template")
    result |= updates(repository, family)
    git(repository, "reset", "--quiet", "--hard")
    setup = subprocess.run(["scripts/setup"], cwd=repository, capture_output=True, text=True, check=False)
    return result | {"setup": "ok" if setup.returncode == 0 else (setup.stdout + setup.stderr)[-400:]}


def updates(repository: Path, family: Family) -> dict[str, object]:
    """Update to the version that is there, and to a later release; return what happened."""
    program = ROOT / "hooks/safe_update.py", "--repository", repository, "--to"
    again = python(*program, family.work_tree)
    unchanged = again.returncode == 0 and not git(repository, "status", "--porcelain")
    later = python(*program, family.next, "--no-lock")  # its lock names versions that do not exist
    release = {
        "exit": later.returncode,
        "changed": len(git(repository, "status", "--porcelain").splitlines()),
        "conflicts": sorted({row.split("\t")[1] for row in git(repository, "ls-files", "-u").splitlines()}),
        "said": (later.stdout + later.stderr)[-300:] if later.returncode else "",
    }
    return {"update_again": "no-op" if unchanged else (again.stdout + again.stderr)[-400:], "later_release": release}


def main() -> None:
    """Measure all repositories, or those that are named; the others are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    entries = yaml.safe_load(RESULT.with_name("repositories.yml").read_text(encoding="utf-8"))
    made_with = git(ROOT, "rev-parse", "--short=12", "HEAD").strip()
    known = {row["name"]: row for row in json.loads(RESULT.read_text(encoding="utf-8"))["repositories"]}
    with TemporaryDirectory(prefix="adopt-bench-") as folder:
        family = clone_family(Path(folder) / "family", copier_at(Path(folder) / "home"))
        for entry in entries:
            name = entry["name"]
            if options.names and name not in options.names:
                continue
            with TemporaryDirectory(dir=folder) as place:
                try:
                    known[name] = measure(entry, options.mirrors.resolve(), family, Path(place))
                except (subprocess.CalledProcessError, OSError, ValueError) as error:
                    known[name] = {**entry, "broken": str(error)[-300:]}
            known[name] |= {"measured": made_with, "load_average": round(os.getloadavg()[0], 1)}
            print(json.dumps(known[name]), flush=True)
            rows = [known[row["name"]] for row in entries if row["name"] in known]
            text = as_json({"machine": machine(), "repositories": rows})
            text = re.sub(r"(?:/[\w.+-]+)*/adopt-bench-\w+/\w+", "...", text).replace(f"{Path.home()}/", "~/")
            options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
