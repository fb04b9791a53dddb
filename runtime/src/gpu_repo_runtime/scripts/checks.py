"""Lint, unit tests and smoke test: each leaves its report and its proof for the release."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
from glob import glob
from pathlib import Path

from .cluster import gpu_pod
from .facts import PROOF, RESULTS, Project, ScriptError, git, make_build, pushed
from .places import place, run
from .tools import take_uv

# Runs all commands of scripts/lint in bash, and fails if one does.
ALL = """\
export PYTHONPATH=$PYTHONPATH:{wheel} code=0
check() {{ "$@" || code=1; }}
check_if_installed() {{
    if command -v "$1" >/dev/null; then check "$@"; else echo "lint: $1 is not installed, so it was not run" >&2; fi
}}
{lines}
exit $code
"""
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
    [*_, wheel] = sorted(glob("wheels/gpu_repo_runtime-*.whl"))
    lines = "\n".join(map(shlex.join, style(project, words)))
    code = run(project, "test", "bash", "-c", ALL.format(wheel=wheel, lines=lines))
    if code == 0:
        project.say("all good")
        if not words:
            project.proved("lint")
    return code


def style(project: Project, words: list[str]) -> list[list[str]]:
    """Return the commands of scripts/lint, each behind a function of `ALL`."""
    adopted, kept = project.adopted, project.adopted.get("kept", [])
    rules = ["--config", "ruff-baseline.toml"] if adopted.get("baseline") and "ruff.toml" in kept else []
    fixes = [["ruff", "check", *rules, "--fix-only", "."], ["ruff", "format", *rules, "."]]
    commands = [
        *(fixes if words else []),
        ["check", "ruff", "check", *rules, "."],
        ["check", "ruff", "format", *rules, "--check", "."],
        ["check", "hadolint", "--ignore", "DL3008", project.dockerfile],  # a package of Debian needs no version
    ]
    pyproject = Path("pyproject.toml").read_text(encoding="utf-8") if Path("pyproject.toml").is_file() else ""
    if adopted.get("types", not adopted) and re.search(r"(?m)^\[tool\.mypy[].]", pyproject):
        commands.append(["check_if_installed", "mypy"])
    if "requirements" not in adopted:
        commands.append(["check", "python", "-m", "gpu_repo_runtime.stale_lock"])
    files = [path for path in sorted(Path("scripts").iterdir()) if path.is_file() and str(path) not in kept]
    shell = [str(path) for path in files if re.match(rb"#!.*sh\n", path.read_bytes())]
    return [*commands, ["check_if_installed", "shellcheck", "--external-sources", "--source-path=SCRIPTDIR", *shell]]


def leftovers() -> list[str]:
    """Return the files with conflict markers and the rejected hunks; not docs, nor what git ignores or tools made."""
    found = git("grep", "-lIE", "--no-index", "--exclude-standard", "^(<{7}|>{7}) ", "--", ".", ":!docs", ":!.venv")
    return found.splitlines() + [str(one) for one in Path().rglob("*.rej") if ".venv" not in one.parts]


def test(project: Project, words: list[str]) -> int:
    """Run the unit tests; a library's with other Pythons too."""
    if project.kind == "library" and words[:1] == ["--python"]:
        uv = take_uv()
        from .. import pythons

        return pythons.test(uv, "".join(words[1:2]), words[2:])
    make_build(PROOF / "test", PROOF / "unit.xml", RESULTS / "unit.xml")
    code = pytest(project, "unit.xml", "unit.xml", "--ignore=tests/gpu", *words)
    if code == 0 and not words:  # all of them ran
        project.proved("test")
    return code


def pytest(project: Project, report: str, proof: str, *words: str) -> int:
    """Run pytest and keep its report as a proof; return its exit code, 1 where it ended well without a report."""
    path = RESULTS / report
    code = run(project, "test", "python", "-m", "pytest", f"--junit-xml={path}", *words)
    if written(path):
        shutil.copyfile(path, PROOF / proof)
    elif code == 0:
        project.say("pytest ended before it wrote its report: a test, or what it calls, ended the process")
        return 1
    return code


def written(report: Path) -> bool:
    """Return whether a program wrote its report."""
    return report.is_file() and report.stat().st_size > 0


def smoke(project: Project, words: list[str]) -> int:
    """Check the GPU from the device nodes up to the model, then run tests/gpu."""
    parser = argparse.ArgumentParser(prog="scripts/smoke", add_help=False, allow_abbrev=False)
    parser.add_argument("--require", choices=LEVELS, default="none")
    require = parser.parse_args(words).require
    found = RESULTS / "gpu-smoke.json"
    make_build(found, RESULTS / "gpu-smoke.xml", RESULTS / "smoke.xml", PROOF / "smoke.json", PROOF / "gpu.xml")
    where, code = place(project), 0
    deployed = where in ("pushed", "cluster")
    image, commit, time = pushed() if deployed else ("", project.commit(), "")
    if where == "venv":
        project.say("gpu-smoke comes with the base image; here only the model is checked (RUN_IN=docker checks both)")
    else:
        code = gpu_smoke(project, require, where == "cluster")
    if written(found):  # what it found, and for which image: a release asks for it
        report = json.loads(found.read_text(encoding="utf-8"))
        record = {"image": image, "commit": commit, "pushed": time, "report": report}
        (PROOF / "smoke.json").write_text(f"{json.dumps(record)}\n", encoding="utf-8")
    if deployed:  # tests/gpu needs pytest, which a deployed image does not contain
        return code
    os.environ["SMOKE_REQUIRE"] = require
    return pytest(project, "smoke.xml", "gpu.xml", "tests/gpu") or code


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
    if code == 0 and not written(RESULTS / names["--json"]):
        project.say("gpu-smoke ended without a report")
        return 1
    return code
