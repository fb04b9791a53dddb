"""How long a fleet of children of this family takes: status, and a push to all of them.

The children are services, batch jobs and libraries on bare repositories, a quarter with an edit that collides with
the release and a tenth broken (answers that cannot be read). Writes benchmarks/results/fleet.json.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import ROOT
from benchmarks.harness import machine, measured, write_result
from tests.answers import TYPES, AnswerSet
from tests.updates.copiers import copier_at
from tests.updates.family import COLLIDING, clone_family
from tests.updates.tiny import make_child


def make_fleet(folder: Path, count: int) -> tuple[Path, dict[str, str]]:
    """Make the template with a next release and `count` children; return fleet file and environment."""
    family = clone_family(folder / "family", copier_at(folder / "home"))
    bases = []
    for project_type in TYPES:
        answers = AnswerSet(project_type, "plain").as_dict().items()
        options = [part for name, value in answers for part in ("--data", f"{name}={value}")]
        bases.append(make_child(family, folder / project_type, "--vcs-ref", family.work_tree, *options))
    (folder / "remotes").mkdir()
    lines = [f"template: '{family.path}'", "children:"]
    for number in range(count):
        base = bases[number % 3]
        base.git("checkout", "--quiet", "--detach", "main")
        edits = {"notes.md": f"child {number}\n", "Dockerfile": base.read("Dockerfile") + "# own\n"}
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


def measure(count: int, jobs: int, pushes: bool) -> dict[str, object]:
    """Measure status and push of a fleet of `count` children."""
    with TemporaryDirectory(prefix="fleet-") as name:
        fleet, environment = make_fleet(Path(name), count)
        tool = [sys.executable, "-W", "ignore", str(ROOT / "hooks/fleet.py"), "--file", str(fleet), "--jobs", str(jobs)]
        result: dict[str, object] = {"children": count, "load_before": round(os.getloadavg()[0], 1)}
        for step in ("push", "push_again", "status") if pushes else ("status",):
            found = measured([*tool, step.removesuffix("_again")], environment, allowed=(0, 3, 5))
            result[step] = {key: round(found[key], 1) for key in ("wall_s", "cpu_s", "largest_process_mib")}
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--push", type=int, nargs="*", default=[12, 100], help="numbers of children that are pushed to")
    parser.add_argument("--status", type=int, nargs="*", default=[200], help="numbers of children for status alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/fleet.json")
    options = parser.parse_args()
    results = [measure(count, options.jobs, True) for count in options.push]
    results += [measure(count, options.jobs, False) for count in options.status]
    about = machine(copier=version("copier"))
    write_result(options.out, {"machine": about, "jobs": options.jobs, "fleets": results})
    print(options.out.read_text(encoding="utf-8"), end="")
