"""Lint, unit tests and smoke test: each leaves its report and its proof for the release."""

from __future__ import annotations

import json
import os
import shutil
from glob import glob
from pathlib import Path

from .cluster import gpu_pod
from .facts import PROOF, RESULTS, Project, ScriptError, git, make_build, pushed
from .places import place, run
from .tools import take_uv

LEVELS = ("none", "driver", "gpu", "framework", "model")


def lint(project: Project, words: list[str]) -> int:
    """Look for leftovers of an update, then check style, types, locks, scripts and Dockerfile."""
    if words not in ([], ["--fix"], ["--leftovers"]):
        raise ScriptError(2, f"unknown option {words[0]}: see scripts/lint --help")
    if found := leftovers():
        raise ScriptError(1, f"conflicts of an update are left in: {' '.join(found)}")
    if words == ["--leftovers"]:
        project.say("no conflicts are left")
        return 0
    make_build(PROOF / "lint")
    adopted = project.adopted
    options = [*words, "--dockerfile", project.dockerfile]
    if adopted.get("baseline") and "ruff.toml" in adopted.get("kept", []):
        options += ["--config", "ruff-baseline.toml"]
    options += ["--types"] if adopted.get("types", not adopted) else []
    options += [word for path in adopted.get("kept", []) if path.startswith("scripts/") for word in ("--not", path)]
    [*_, wheel] = sorted(glob("wheels/gpu_repo_runtime-*.whl"))
    start = f'PYTHONPATH=$PYTHONPATH:{wheel} exec python -m gpu_repo_runtime.scripts.linting "$@"'
    code = run(project, "test", "bash", "-c", start, "lint", *options)
    if code == 0 and not words:
        project.proved("lint")
    return code


def leftovers() -> list[str]:
    """Return the files with conflict markers and the rejected hunks; not docs, nor what git ignores or tools made."""
    found = git("grep", "-lIE", "--no-index", "--exclude-standard", "^(<{7}|>{7}) ", "--", ".", ":!docs", ":!.venv")
    return found.splitlines() + [str(one) for one in Path().rglob("*.rej") if ".venv" not in one.parts]


def test(project: Project, words: list[str]) -> int:
    """Run the unit tests; a library's with other Pythons too."""
    if project.kind == "library" and words[:1] == ["--python"]:
        uv = take_uv()
        from .. import pythons

        return pythons.main(["--uv", uv, *words[1:]])
    report = RESULTS / "unit.xml"
    make_build(PROOF / "test", PROOF / "unit.xml", report)
    code = run(project, "test", "python", "-m", "pytest", f"--junit-xml={report}", "--ignore=tests/gpu", *words)
    if code == 0 and not words:  # all of them ran
        if not report.is_file() or not report.stat().st_size:
            why = "a test, or what it calls, ended the process"
            raise ScriptError(1, f"pytest ended before it wrote its report: {why}")
        shutil.copyfile(report, PROOF / "unit.xml")
        project.proved("test")
    return code


def smoke(project: Project, words: list[str]) -> int:
    """Check the GPU from the device nodes up to the model, then run tests/gpu."""
    if words and words[0] != "--require":
        raise ScriptError(2, f"unknown option {words[0]}: see scripts/smoke --help")
    require = "none" if not words else " ".join(words[1:])
    if require not in LEVELS:
        raise ScriptError(2, f"--require {require or '(nothing)'} is unknown: take {', '.join(LEVELS[:-1])} or model")
    found, report = RESULTS / "gpu-smoke.json", RESULTS / "smoke.xml"
    make_build(found, RESULTS / "gpu-smoke.xml", report, PROOF / "smoke.json", PROOF / "gpu.xml")
    where = place(project)
    about = {"image": "", "commit": project.commit(), "pushed": ""}
    if where in ("pushed", "cluster"):
        about = dict(zip(about, pushed()))  # noqa: B905 - an agent may have an older Python
    code = 0
    if where == "venv":
        project.say("gpu-smoke comes with the base image; here only the model is checked (RUN_IN=docker checks both)")
    else:
        code = gpu_smoke(project, require, where == "cluster")
    if found.is_file() and found.stat().st_size:  # what it found, and for which image: a release asks for it
        record = {**about, "report": json.loads(found.read_text(encoding="utf-8"))}
        (PROOF / "smoke.json").write_text(f"{json.dumps(record)}\n", encoding="utf-8")
    if where in ("pushed", "cluster"):  # tests/gpu needs pytest, which a deployed image does not contain
        return code
    os.environ["SMOKE_REQUIRE"] = require
    code = run(project, "test", "python", "-m", "pytest", f"--junit-xml={report}", "tests/gpu") or code
    if report.is_file() and report.stat().st_size:
        shutil.copyfile(report, PROOF / "gpu.xml")
    elif code == 0:
        project.say("pytest ended before it wrote its report")
        code = 1
    return code


def gpu_smoke(project: Project, require: str, on_cluster: bool) -> int:
    """Run gpu-smoke of the base image; return its exit code, 1 where it ended well and wrote no report."""
    own = ["--framework", project.framework] if not project.row.startswith(project.framework) else []
    model = ["--model", f"{project.package}.model:Model"] if project.has_model else []
    level = require if model else min(require, "gpu", key=LEVELS.index)
    command = ["/usr/local/bin/gpu-smoke", "--require", level, *own, *model]
    names = {"--junit": "gpu-smoke.xml", "--json": "gpu-smoke.json"}
    folder = "/tmp" if on_cluster else str(RESULTS)
    command += [word for option, name in names.items() for word in (option, f"{folder}/{name}")]
    if on_cluster:
        with gpu_pod(project) as pod:
            code = pod.run(*command).returncode
            for name in names.values():
                pod.fetch(f"{folder}/{name}", RESULTS / name)
    else:
        code = run(project, "test", *command)
    report = RESULTS / names["--json"]
    if code == 0 and not (report.is_file() and report.stat().st_size):
        project.say("gpu-smoke ended without a report")
        return 1
    return code
