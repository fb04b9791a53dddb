"""How `make adopt` does on public repositories: what is lost (nothing), and what works afterwards.

Each repository of repositories.yml is taken from a folder of bare clones (OWNER+NAME/repo) at its commit, and adopted
with the answers that are found. Then: scripts/setup, the template's tests alone, all tests, their own without the
template, scripts/lint, an update to the same version and to a later release. Writes benchmarks/adopt/result.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.result_files import as_json, machine
from tests.updates.copiers import copier_at
from tests.updates.family import Family, clone_family, release_next

ROOT = Path(__file__).resolve().parents[2]
RESULT = Path(__file__).with_name("result.json")
TESTS = 100  # seconds for the tests of one repository, before and after
OWN_TESTS = 600  # seconds for those of the template alone, which end by themselves: a busy machine stops none
STOPPED = 124  # how `timeout` ends where it had to stop a command
KILLED = (137, -9)  # and where that did not help: it ends by the signal that it sent
WHO = ("-c", "user.name=owner", "-c", "user.email=owner@example.com", "-c", "core.hooksPath=/dev/null")


def git(folder: Path, *arguments: str) -> str:
    """Run git and return what it prints. Raises CalledProcessError."""
    done = subprocess.run(
        ["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True, text=True, errors="replace"
    )
    return done.stdout


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


def run(folder: Path, limit: int, *command: str, **more: str) -> tuple[int, str]:
    """Run a command; return its exit code (124 where it was stopped at its limit) and the end of what it said.

    It is stopped as by Ctrl-C, for which pytest writes its report of the tests that ended.
    """
    environment = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"} | {"HF_HUB_OFFLINE": "1"} | more
    limited = ["timeout", "--signal=INT", "--kill-after=30", str(limit), *command]
    done = subprocess.run(
        limited, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    return STOPPED if done.returncode in KILLED else done.returncode, (done.stdout + done.stderr).strip()[-1500:]


def outcomes(file: Path) -> dict[str, str]:
    """Return each test of a JUnit file and how it ended."""
    if not file.exists():
        return {}
    found = {}
    cases = ElementTree.parse(file).iter("testcase")
    for case in (one for one in cases if one.get("name")):  # one that was stopped in the middle has no name
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        found[f"{case.get('classname')}::{case.get('name')}"] = next(iter(kinds), "passed")
    return found


def lost(folder: Path, before: str, after: str) -> int:
    """Return how many lines of the files of `before` are not in those of `after`; counted here, not by the program."""
    count = 0
    for path in git(folder, "ls-tree", "-r", "-z", "--name-only", before).split("\0")[:-1]:
        old, new = (subprocess.run(["git", "show", f"{commit}:{path}"], cwd=folder, capture_output=True).stdout
                    for commit in (before, after))  # fmt: skip
        if old != new:
            rest = iter(new.splitlines())
            count += sum(line not in rest for line in old.splitlines())
    return count


def tests(child: Path, old: Path, limit: int) -> dict[str, object]:
    """Run the template's tests alone, then all of them, and those that were there without the template; compare.

    Each run has a limit of its own: slow tests of theirs do not keep the template's from being counted.
    """
    more = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors")
    added = git(child, "diff", "--name-only", "--diff-filter=A", "main", "adopt-template", "--", "tests/test_*.py")
    own = tuple(path.removesuffix(".py").replace("/", ".") for path in added.splitlines())
    report = child / "build" / "test-results" / "unit.xml"
    alone, _ = run(child, OWN_TESTS, "scripts/test", *more, *added.splitlines())
    ours = {name: kind for name, kind in outcomes(report).items() if name.startswith(own)}  # theirs may be added
    report.unlink(missing_ok=True)
    code, said = run(child, limit, "scripts/test", *more)
    whole = outcomes(report)
    after = {name: kind for name, kind in whole.items() if not name.startswith(own)}
    python, report = str(child / ".venv" / "bin" / "python"), old.parent / "before.xml"
    here = [path for path in ("tests", "test") if (old / path).is_dir()]
    path = f"{child / '.venv' / 'bin'}:{os.environ['PATH']}"
    first, _ = run(old, limit, python, "-m", "pytest", *more, f"--junit-xml={report}", *here,
        PYTHONPATH=f"{old / 'src'}:{old}", PATH=path)  # fmt: skip
    before = outcomes(report)
    unseen = "passed" if code == STOPPED else ""  # what was not reached says nothing
    passed = [name for name, kind in (before | ours).items() if kind == "passed"]
    worse = sorted(name for name in passed if whole.get(name, unseen) != "passed")
    return {
        "exit": code, "exit_of_the_template": alone, "theirs_before": _count(before), "theirs_after": _count(after),
        "of_the_template": _count(ours),
        "worse": worse[:10], "stopped": STOPPED in (code, first), "said": said[-400:] if worse else "",
    }  # fmt: skip


def _count(found: dict[str, str]) -> dict[str, int]:
    return {kind: list(found.values()).count(kind) for kind in ("passed", "failure", "error", "skipped")}


def measure(
    entry: dict[str, str], mirrors: Path, family: Family, folder: Path, build: str | None, limit: int
) -> dict[str, object]:
    """Adopt one repository and return what was seen."""
    repository, old = folder / entry["name"].split("/")[1], folder / "old"
    result: dict[str, object] = {**entry, "files": snapshot(mirrors, entry, repository)}
    git(repository, "worktree", "add", "--quiet", "--detach", str(old))
    spent = sum(os.times()[2:4])  # processor time of the programs that ended
    command = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "adopt.py"), str(repository), "--json"]
    command += ["--template", str(family.path), "--version", family.work_tree]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    result |= {"exit": done.returncode, "cpu_s": round(sum(os.times()[2:4]) - spent, 1)}
    if done.returncode not in (0, 3):
        return result | {"refused": done.stderr.strip()[-600:]}
    told = json.loads(done.stdout)
    result |= {"answers": {name: answer["value"] for name, answer in told["answers"].items()},
               "to_do": told["to_do"], "to_know": len(told["to_know"])}  # fmt: skip
    result["lost_lines"] = lost(repository, "main", "adopt-template")
    result["status_untouched"] = not git(repository, "status", "--porcelain")
    git(repository, "switch", "--quiet", "adopt-template")
    if build is None:
        return result | {"setup": "not run"} | updates(repository, family)
    which = {"torch": build, "tensorflow": ""}.get(str(result["answers"]["framework"]), "")
    code, said = run(repository, 580, "scripts/setup", *(["--framework", which] if which else []))
    result["setup"] = "ok" if code == 0 else said[-500:]
    if code == 0:
        result["tests"] = tests(repository, old, limit)
        code, said = run(repository, 300, "scripts/lint")
        result["lint"] = "ok" if code == 0 else said[-500:]
    return result | updates(repository, family)


def updates(repository: Path, family: Family) -> dict[str, object]:
    """Update to the version that is there, and to a later release; return what happened."""
    program = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "safe_update.py"), "--repository", str(repository)]
    git(repository, "stash", "--include-untracked", "--quiet")
    code, said = run(repository, 300, *program, "--to", family.work_tree)
    found: dict[str, object] = {
        "update_again": "no-op" if code == 0 and not git(repository, "status", "--porcelain") else said[-400:]
    }
    code, said = run(repository, 300, *program, "--to", family.next, "--no-lock")  # it names versions that do not exist
    changed = [row[3:] for row in git(repository, "status", "--porcelain").splitlines()]
    conflicts = sorted({row.split("\t")[1] for row in git(repository, "ls-files", "-u").splitlines()})
    found["later_release"] = {
        "exit": code,
        "changed": len(changed),
        "conflicts": conflicts,
        "said": said[-300:] if code else "",
    }
    return found


def before(result: Path) -> dict[str, dict[str, object]]:
    """Return what was measured earlier, by the names of the repositories."""
    if not result.exists():
        return {}
    return {row["name"]: row for row in json.loads(result.read_text(encoding="utf-8"))["repositories"]}


def main() -> int:
    """Measure all repositories, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirrors", type=Path, help="folder with OWNER+NAME/repo for each repository")
    parser.add_argument("names", nargs="*", help="only these (OWNER/NAME)")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--no-setup", action="store_true", help="leave out what takes minutes: setup, tests, lint")
    parser.add_argument(
        "--framework-build", default="", metavar="PACKAGE==VERSION", help="the build of torch to try with"
    )
    parser.add_argument(
        "--limit", type=int, default=TESTS, help="seconds for a run of all tests (default: %(default)s)"
    )
    options = parser.parse_args()
    build = None if options.no_setup else options.framework_build
    entries = yaml.safe_load(RESULT.with_name("repositories.yml").read_text(encoding="utf-8"))
    known, made_with = before(options.result), git(ROOT, "rev-parse", "--short=12", "HEAD").strip()
    with TemporaryDirectory(prefix="adopt-bench-") as folder:
        family = clone_family(Path(folder) / "family", copier_at(Path(folder) / "home"))
        release_next(family)
        for entry in entries:
            if options.names and entry["name"] not in options.names:
                continue
            place = Path(folder) / "one"
            place.mkdir()
            try:
                known[entry["name"]] = measure(entry, options.mirrors.resolve(), family, place, build, options.limit)
            except (subprocess.CalledProcessError, OSError, ValueError) as error:
                known[entry["name"]] = {**entry, "broken": str(error)[-300:]}
            known[entry["name"]] |= {"measured": made_with, "load_average": round(os.getloadavg()[0], 1)}
            shutil.rmtree(place)
            rows = [known[row["name"]] for row in entries if row["name"] in known]
            text = as_json({"machine": machine(), "repositories": rows})
            text = re.sub(r"(?:/[\w.+-]+)*/adopt-bench-\w+/one", "...", text).replace(f"{Path.home()}/", "~/")
            options.result.write_text(f"{text}\n", encoding="utf-8")
            print(json.dumps(known[entry["name"]]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
