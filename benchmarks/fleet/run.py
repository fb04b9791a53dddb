"""How long a fleet of children of this family takes: status, and a push to all of them.

The children are services, batch jobs and libraries on bare repositories, a quarter with an edit that collides with
the release and a tenth broken (answers that cannot be read). Writes benchmarks/results/fleet.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.result_files import machine, write_result
from tests.answers import TYPES, AnswerSet
from tests.updates.copiers import copier_at
from tests.updates.family import COLLIDING, clone_family, release_next
from tests.updates.tiny import Child, make_child

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "fleet.json"


def make_fleet(folder: Path, count: int) -> tuple[Path, dict[str, str]]:
    """Make the template with a next release and `count` children; return fleet file and environment."""
    family = clone_family(folder / "family", copier_at(folder / "home"))
    release_next(family)
    bases: list[Child] = []
    for project_type in TYPES:
        answers = AnswerSet(project_type, "plain").as_dict().items()
        options = [part for name, value in answers for part in ("--data", f"{name}={value}")]
        bases.append(make_child(family, folder / project_type, "--vcs-ref", family.work_tree, *options))
    (folder / "remotes").mkdir()
    lines = [f"template: '{family.path}'", "children:"]
    for number in range(count):
        base = bases[number % 3]
        base.git("checkout", "--quiet", "--detach", "main")
        edits: dict[str, str | None] = {
            "notes.md": f"child {number}\n",
            "Dockerfile": base.read("Dockerfile") + "# own\n",
        }
        if number % 10 == 0:
            edits = {".copier-answers.yml": "<<<<<<< HEAD\n"}
        elif number % 4 == 1:
            edits[COLLIDING] = base.read(COLLIDING) + "# own line\n"
        base.edit(edits)
        base.git("branch", "--force", "child")
        bare = folder / "remotes" / f"c{number:03}.git"
        base.git("clone", "--quiet", "--bare", "--single-branch", "--branch=child", str(base.path), str(bare))
        lines.append(f"- '{bare}'")
    (folder / "fleet.yml").write_text("\n".join(lines) + "\n")
    return folder / "fleet.yml", family.copier.environment()


def timed(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Run the fleet tool; return wall and processor seconds and the memory of the largest process in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3, 5):
        raise SystemExit(f"{command}: {done.stderr}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(wall, 1), "cpu_s": round(spent, 1), "largest_process_mib": after.ru_maxrss // 1024}


def measure(count: int, jobs: int, status_only: bool = False) -> dict[str, object]:
    """Measure status and push of a fleet of `count` children."""
    with TemporaryDirectory(prefix="fleet-") as name:
        folder = Path(name)
        fleet, environment = make_fleet(folder, count)
        program = str(ROOT / "hooks" / "fleet.py")
        tool = [sys.executable, "-W", "ignore", program, "--file", str(fleet), "--jobs", str(jobs)]
        steps = [] if status_only else ["push", "push_again"]
        load, times = os.getloadavg()[0], {name: timed([*tool, "push"], environment) for name in steps}
        times["status"] = timed([*tool, "status"], environment)
    return {"children": count, "load_before": round(load, 1)} | times


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--status-only", action="store_true", help="add a measurement of status to the result file")
    options = parser.parse_args()
    results = json.loads(RESULT.read_text(encoding="utf-8"))["fleets"] if options.status_only else []
    results += [measure(count, options.jobs, options.status_only) for count in options.children]
    write_result(RESULT, {"machine": machine(copier=version("copier")), "jobs": options.jobs, "fleets": results})
    print(RESULT.read_text(encoding="utf-8"), end="")
