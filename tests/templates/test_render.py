"""Every valid combination of answers is rendered, and each file of each render is checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml
from pathspec import GitIgnoreSpec

from tests.answers import AnswerSet, every_answer_set
from tests.conftest import ROOT
from tests.docs.blocks import missing_in_child
from tests.jenkins.runner import check
from tests.sampling import sampled
from tests.templates import checks

CATALOG = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text())


def is_quick(answers: AnswerSet) -> bool:
    """Tell whether `make test` renders an answer set: one of each type, with the pipelines of every CI system."""
    return len(answers.ci) == len(checks.PIPELINES)


def name_of(answers: AnswerSet) -> str:
    """Return how an answer set is called in the names of tests."""
    return answers.id


@pytest.fixture(params=sampled(every_answer_set(), is_quick), ids=name_of)
def answers(request: pytest.FixtureRequest) -> AnswerSet:
    """Return each answer set in turn."""
    return request.param


@pytest.fixture
def child(answers: AnswerSet, render: Callable[[AnswerSet], Path]) -> Path:
    """Return the folder of the rendered answer set."""
    return render(answers)


@cache
def texts(child: Path) -> dict[str, str]:
    """Return path -> text of every file of a child; a wheel and weights have none."""
    return {
        p.relative_to(child).as_posix(): "" if p.suffix in (".whl", ".npz") else p.read_text(encoding="utf-8")
        for p in checks.files_of(child)
    }


def report(answers: AnswerSet, faults: dict[str, object]) -> None:
    """Fail with one line for each faulty file of the answer set."""
    lines = [f"{answers.id}: {name}: {fault}" for name, fault in faults.items() if fault]
    assert not lines, "\n".join(lines)


def test_every_file_parses(answers, child):
    faults: dict[str, object] = {}
    for name, text in texts(child).items():
        suffix = Path(name).suffix
        faults[name] = checks.parse_error(suffix, text)
        if checks.is_shell(Path(name), text):
            faults[name] = checks.shell_error(text)
        if name.endswith(".lock") and name != "weights.lock":
            assert checks.requirements(text), f"{answers.id}: {name} pins nothing"
    report(answers, faults)


def test_no_template_is_left(answers, child):
    words = re.compile(r"\{\{|\{%|\{#|#\}|%\}|\}\}|copier_conf|StrictUndefined|None\b(?=\n)")
    quoted = json.dumps(answers.description, ensure_ascii=False)
    labels = (f'{{{{index .Labels "org.opencontainers.image.{label}"}}}}' for label in ("revision", "created"))
    go = ("{{json .Runtimes}}", "{{.Digest}}", "{{.State.ExitCode}}", *labels)
    harmless = (quoted, quoted.replace("$", "\\$"), answers.description, *go, "${{", "}}'")
    faults: dict[str, object] = {}
    for name, text in texts(child).items():
        if name.endswith((".py", ".lock")) or "/dashboards/" in name:
            text = "" if "{%" not in text else text
        for part in harmless:
            text = text.replace(part, "")
        found = words.search(text)
        # A nested JSON object or a Prometheus legend may close with two braces.
        faults[name] = found and not name.endswith((".json", ".yaml", ".yml", ".tmpl")) and f"{found[0]} is left"
        if name.endswith((".json", ".yaml", ".yml")) and re.search(r"\{%|\{#", text):
            faults[name] = "a Jinja tag is left"
    report(answers, faults)


def test_reads_as_written_by_hand(answers, child):
    report(answers, {name: checks.style_error(name, text) for name, text in texts(child).items()})


def test_the_readme_names_only_what_is_there(answers, child):
    report(answers, {"README.md": missing_in_child(child)})


def test_python_is_clean(answers, child):
    report(answers, {"*.py": checks.python_error(child)})


# shellcheck takes ten seconds of CPU for one child; the scripts of a type differ little from child to child.
@pytest.mark.slow
@pytest.mark.parametrize("answers", list(filter(is_quick, every_answer_set())), ids=name_of, indirect=True)
def test_shell_and_dockerfile_are_clean(answers, child):
    scripts = tuple(n for n, t in texts(child).items() if checks.is_shell(Path(n), t) and not n.endswith(".sh"))
    assert len(scripts) >= 8, f"{answers.id}: scripts are missing: {scripts}"
    report(
        answers,
        {
            "scripts": checks.shellcheck_error(child, scripts),
            "Dockerfile": checks.dockerfile_error((child / "Dockerfile").read_text()),
        },
    )


def test_kubernetes_objects_fit_the_schemas(answers, child):
    manifests = {n: t for n, t in texts(child).items() if n.startswith("deploy/") and n.endswith((".yml", ".yaml"))}
    assert bool(manifests) == (answers.project_type != "library" and answers.kubernetes), (
        f"{answers.id}: deploy/ holds {sorted(manifests)}"
    )
    report(answers, {name: checks.kubernetes_error(text) for name, text in manifests.items()})


def test_gpu_resource_is_the_answer(answers, child):
    deploy = "".join(t for n, t in texts(child).items() if n.startswith("deploy/base/"))
    if deploy:
        assert answers.gpu_resource in deploy, f"{answers.id}: deploy/base asks for no {answers.gpu_resource}"


def test_images_have_a_tag(answers, child):
    named = ("Dockerfile", ".yml", ".yaml", ".json")
    report(answers, {n: checks.unpinned_images(t) for n, t in texts(child).items() if n.endswith(named)})


def test_scripts_can_be_executed_and_nothing_else(answers, child):
    faults: dict[str, object] = {}
    for name, text in texts(child).items():
        executable = os.access(child / name, os.X_OK)
        faults[name] = executable != text.startswith("#!") and f"executable: {executable}"
    report(answers, faults)


def test_every_script_is_there_and_explains_itself(answers, child):
    verbs = {"setup", "lint", "test", "build", "smoke", "run", "shell", "lock", "update", "profile"}
    present = {p.name for p in (child / "scripts").iterdir() if os.access(p, os.X_OK) and p.is_file()}
    assert verbs <= present, f"{answers.id}: scripts without {verbs - present}"


def test_the_pipelines_are_those_of_the_answer(answers, child):
    there = {system for system, name in checks.PIPELINES.items() if (child / name).exists()}
    assert there == set(answers.ci), f"{answers.id}: there are pipelines for {there}"


@pytest.mark.needs("groovy")
def test_jenkins_would_read_the_pipeline(answers, child):
    if "jenkins" not in answers.ci:
        return
    assert [str(problem) for problem in check(child / "Jenkinsfile")] == [], answers.id


def test_github_would_read_the_workflow(answers, child):
    """actionlint and act's schema agree; every action is one commit, with its version beside it."""
    if "github" not in answers.ci:
        return
    text = texts(child)[checks.PIPELINES["github"]]
    actions = re.findall(r"uses: (?:&\w+ )?(?!\*)(.+)", text)
    loose = [one for one in actions if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)]
    assert actions, f"{answers.id}: no action is used"
    assert not loose, f"{answers.id}: not pinned by commit with the version beside it: {loose}"
    report(answers, {checks.PIPELINES["github"]: checks.workflow_error(text)})


def test_nothing_is_deployed_without_kubernetes(answers, child):
    deployed = answers.project_type != "library" and answers.kubernetes
    for name in checks.PIPELINES.values():
        if name in texts(child):
            words = re.search(r"(?i)deploy|kube|overlay", texts(child)[name])
            assert bool(words) == deployed, f"{answers.id}: {name}: {words}"
    assert (child / "scripts" / "deploy").exists() == deployed, f"{answers.id}: scripts/deploy"


def test_no_folder_is_empty(answers, child):
    """A part that was switched off leaves no folder behind."""
    folders = [path for path in child.rglob("*") if path.is_dir() and not any(path.iterdir())]
    report(answers, {path.relative_to(child).as_posix(): "an empty folder" for path in folders})


def test_every_file_has_one_owner(answers, child):
    listed = yaml.safe_load((child / ".copier-ownership.yml").read_text(encoding="utf-8"))
    entries = {path: GitIgnoreSpec.from_lines([f"/{path}"]) for paths in listed.values() for path in paths}
    faults: dict[str, object] = {}
    unused = set(entries) - {"weights.toml", "weights.lock", "weights/"}  # if any
    for name in texts(child):
        matching = {path for path, spec in entries.items() if spec.match_file(name)}
        unused -= matching
        faults[name] = len(matching) != 1 and f"matched by {matching or 'nothing'} in .copier-ownership.yml"
    report(answers, faults | dict.fromkeys(unused, "is listed and not there"))


def test_versions_agree_with_the_image(answers, child):
    found = texts(child)
    [stands_on] = [one["image_framework"] for one in CATALOG["frameworks"] if one["name"] == answers.framework]
    rows = [r for r in CATALOG["images"] if r["framework"] == stands_on and r["state"] != "retired"]
    rows = [r for r in rows if r.get("pinned_minor", "newest") == answers.framework_version]
    image = max((r for r in rows if r["driver_min"] <= int(answers.gpu_driver)), key=lambda r: r["driver_min"])
    base = checks.requirements((ROOT / "base-images" / image["name"] / "requirements.lock").read_text())
    constraints = dict(line.split("==") for line in found["constraints.txt"].splitlines() if not line.startswith("#"))
    assert constraints == base, f"{answers.id}: constraints.txt is not the lock of {image['name']}"
    assert f"/{image['name']}:" in found["Dockerfile"], f"{answers.id}: Dockerfile is not on {image['name']}"
    faults: dict[str, object] = {}
    for name in (n for n in found if n.startswith("requirements")):
        pins = checks.requirements(found[name])
        faults[name] = {p: v for p, v in pins.items() if base.get(p, v) != v}
    report(answers, faults)


def test_what_is_asked_for_is_locked(answers, child):
    found = texts(child)
    asked = re.findall(
        r'(?m)^  "([A-Za-z0-9-]+)[^"]*",?$', re.sub(r"(?ms)^classifiers = \[.*?^\]", "", found["pyproject.toml"])
    )
    locked = checks.requirements(found["requirements.lock"]) | checks.requirements(found["requirements-dev.lock"])
    missing = [name for name in asked if name.lower() not in locked]
    assert asked, f"{answers.id}: pyproject.toml asks for nothing"
    assert not missing, f"{answers.id}: pyproject.toml asks for {missing}, the locks do not hold them (make locks)"


def test_description_and_names_are_kept_as_given(answers, child):
    found = texts(child)
    project = checks.tomllib.loads(found["pyproject.toml"])["project"]
    assert (project["name"], project["description"]) == (answers.project_name, answers.description), answers.id
    assert answers.description in found["README.md"], answers.id
    assert (child / "src" / answers.package_name / "model.py").is_file(), answers.id


def test_paths_can_be_checked_out_on_windows(answers, child):
    names = list(texts(child))
    bad = [n for n in names if re.search(r'[<>:"|?*\\]|[. ](/|$)', n) or len(n) > 150]
    reserved = [n for n in names if re.search(r"(?i)(^|/)(con|prn|aux|nul)(\.|/|$)", n)]
    assert not bad + reserved, f"{answers.id}: {bad + reserved}"
    assert len({n.lower() for n in names}) == len(names), f"{answers.id}: names that differ only in case"


def test_no_package_index_is_named(answers, child):
    host = re.compile(r"(files\.)?py" + r"thonhosted|py" + r"pi\.org|download\.py" + r"torch|np" + r"mjs\.org")
    report(answers, {n: host.search(t) and "names the host of a package index" for n, t in texts(child).items()})
