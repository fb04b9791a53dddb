"""Every valid combination of answers is rendered, and each file of each render is checked."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import yaml
from gpu_repo_runtime.update.render import owner_of, owners_in
from pathspec import GitIgnoreSpec

from tests.answers import AnswerSet, every_answer_set
from tests.conftest import ROOT
from tests.docs.blocks import missing_in_child
from tests.jenkins.runner import check
from tests.sampling import sampled
from tests.templates import checks

CATALOG = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text())
Faults = Iterable[tuple[str, object]]  # the name of a file, and what is wrong with it if anything
RESOLVED = (".lock", "constraints.txt", ".whl", "LICENSE", "dashboard.json")  # or drawn, or legal
# Files and lines of the template in a child. Who adds to a child makes room here, or puts it into the runtime.
LIMITS = {"library": (28, 700), "batch": (41, 940), "service": (43, 990)}
SMALL = [*((project_type, "plain") for project_type in LIMITS), ("service", "torch"), ("service", "tensorflow")]


@dataclass
class Child:
    """A rendered answer set."""

    answers: AnswerSet
    folder: Path

    @cached_property
    def texts(self) -> dict[str, str]:
        """Path -> text of every file; a wheel has none."""
        files = {p.relative_to(self.folder).as_posix(): p for p in checks.files_of(self.folder)}
        return {name: "" if p.suffix == ".whl" else p.read_text(encoding="utf-8") for name, p in files.items()}

    def named(self, *ends: str) -> dict[str, str]:
        """Return the files whose names end so."""
        return {name: text for name, text in self.texts.items() if name.endswith(ends)}

    @property
    def is_deployed(self) -> bool:
        """Whether it has Kubernetes objects."""
        return self.answers.project_type != "library" and self.answers.kubernetes


def is_quick(answers: AnswerSet) -> bool:
    """Tell whether `make test` renders an answer set: one of each type, with the pipelines of every CI system."""
    return len(answers.ci) == len(checks.PIPELINES)


@pytest.fixture(params=sampled(every_answer_set(), is_quick), ids=lambda answers: answers.id)
def child(request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path]) -> Child:
    """Return each answer set in turn."""
    return Child(request.param, render(request.param))


def parses(child: Child) -> Faults:
    """Data parses; a lock has pins, each with a hash."""
    yield from ((name, checks.parse_error(Path(name).suffix, text)) for name, text in child.texts.items())
    yield from ((name, not checks.requirements(text)) for name, text in child.named(".lock").items())


def no_template_is_left(child: Child) -> Faults:
    """No tag of Jinja and no name of Copier; data and code may have two braces."""
    description = child.answers.description
    for name, text in child.texts.items():
        for quoted in (json.dumps(description, ensure_ascii=False), description):
            text = text.replace(quoted, "").replace(quoted.replace("$", "\\$"), "")
        more = r"|StrictUndefined|\bNone\n" if not name.endswith(".py") else ""
        more += "" if name.endswith((".py", ".json", ".yaml", ".yml", ".lock")) else r"|(?<!\$)\{\{"
        yield name, re.search(r"\{%|\{#|copier_conf" + more, text)


def reads_as_written_by_hand(child: Child) -> Faults:
    yield from ((name, text and checks.style_error(name, text)) for name, text in child.texts.items())
    yield "*.py", checks.python_error(child.folder)
    yield "README.md", missing_in_child(child.folder)
    folders = [path for path in child.folder.rglob("*") if path.is_dir() and not any(path.iterdir())]
    yield from ((str(path), "an empty folder: a part that was switched off") for path in folders)


def can_be_checked_out_on_windows(child: Child) -> Faults:
    for name in child.texts:
        yield name, re.search(r'(?i)[<>:"|?*\\]|[. ](/|$)|(^|/)(con|prn|aux|nul)(\.|/|$)', name) or len(name) > 150
    yield "names", len({name.lower() for name in child.texts}) != len(child.texts)


def scripts_are_there_and_short_and_nothing_else_is_executable(child: Child) -> Faults:
    for name, text in child.texts.items():
        yield name, os.access(child.folder / name, os.X_OK) != text.startswith("#!")
        script = name.startswith("scripts/") and not name.endswith(".lock") and child.answers.layout == 2
        yield name, script and len(text.splitlines()) > 25
    verbs = ("setup", "lint", "test", "build", "smoke", "run", "shell", "lock", "update", "profile")
    yield from ((verb, f"scripts/{verb}" not in child.texts) for verb in verbs)


def every_pod_asks_for_the_gpu_of_the_answer_and_fits_kubernetes(child: Child) -> Faults:
    """kubectl builds every base, overlay and component."""
    folders = [path.parent for path in sorted((child.folder / "deploy").rglob("kustomization.yaml"))]
    yield "deploy/", bool(folders) != child.is_deployed
    for folder in folders:
        for one in checks.objects(folder):
            yield str(folder), checks.schema_error(json.dumps(one))
    base = "".join(text for name, text in child.texts.items() if name.startswith("deploy/base/"))
    yield "deploy/base", child.is_deployed and child.answers.gpu_resource not in base
    images = r"(?m)^\s*-?\s*(?:image|reference|FROM|ARG BASE_IMAGE)[:= ][ \t]*[\"']?([^\s\"']+)"
    for name, text in child.named("Dockerfile", ".yml", ".yaml", ".json").items():
        found = {one for one in re.findall(images, text) if one[0] != "$"} - {"packages", "scratch", "test"}
        yield name, [one for one in found if not re.search(r":(?!latest)[\w.-]+$|@sha256:[0-9a-f]{64}$", one)]


def the_pipelines_are_those_of_the_answer(child: Child) -> Faults:
    """GitHub reads its workflow, an action is one commit with its version beside it, nothing else is deployed."""
    there = {system for system, name in checks.PIPELINES.items() if name in child.texts}
    yield "pipelines", there ^ set(child.answers.ci)
    yield "scripts/deploy", ("scripts/deploy" in child.texts) != child.is_deployed
    for name in (checks.PIPELINES[system] for system in there):
        words = re.search(r"(?i)deploy|kube|overlay", child.texts[name])
        yield name, bool(words) != child.is_deployed and f"{words} though kubernetes is {child.is_deployed}"
        actions = re.findall(r"uses: (?:&\w+ )?(?!\*)(.+)", child.texts[name])
        yield name, [one for one in actions if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)]
        yield name, "github" in name and checks.workflow_error(child.texts[name])


def every_file_has_one_owner(child: Child) -> Faults:
    listed = yaml.safe_load(child.texts[".copier-ownership.yml"])
    entries = {path: GitIgnoreSpec.from_lines([f"/{path}"]) for paths in listed.values() for path in paths}
    unused = set(entries) - {"weights.toml", "weights.lock", "weights/"}  # if any
    for name in child.texts:
        matching = {path for path, spec in entries.items() if spec.match_file(name)}
        unused -= matching
        yield name, len(matching) != 1 and f"matched by {matching or 'nothing'} in .copier-ownership.yml"
    yield ".copier-ownership.yml", unused


def versions_agree_with_the_image(child: Child) -> Faults:
    found, answers = child.texts, child.answers
    [framework] = [one["image_framework"] for one in CATALOG["frameworks"] if one["name"] == answers.framework]
    rows = [r for r in CATALOG["images"] if r["framework"] == framework and r["state"] != "retired"]
    rows = [r for r in rows if r.get("pinned_minor", "newest") == answers.framework_version]
    image = max((r for r in rows if r["driver_min"] <= int(answers.gpu_driver)), key=lambda r: r["driver_min"])
    base = checks.requirements((ROOT / "base-images" / image["name"] / "requirements.lock").read_text())
    constraints = dict(line.split("==") for line in found["constraints.txt"].splitlines() if line[0] != "#")
    yield "constraints.txt", constraints != base and f"is not the lock of {image['name']}"
    yield "Dockerfile", f"/{image['name']}:" not in found["Dockerfile"]
    locked: dict[str, str] = {}
    for name in (name for name in found if name.startswith("requirements")):
        pins = checks.requirements(found[name])
        yield name, {package: version for package, version in pins.items() if base.get(package, version) != version}
        locked |= pins
    project = tomllib.loads(found["pyproject.toml"])
    groups = [project["project"]["dependencies"], *project["dependency-groups"].values()]
    names = [re.split(r"[^\w-]", one)[0] for group in groups for one in group]
    yield "pyproject.toml", [name for name in names if name not in locked] or not names
    code = "".join(text for name, text in found.items() if name.startswith("src/"))
    known = {name.replace("-", "_") for name in names} | sys.stdlib_module_names | {"sklearn"}  # of the training
    yield "src/", set(re.findall(r"(?m)^(?:import|from) (\w+)", code)) - known


def names_are_kept_as_given(child: Child) -> Faults:
    answers, project = child.answers, tomllib.loads(child.texts["pyproject.toml"])["project"]
    yield "pyproject.toml", (project["name"], project["description"]) != (answers.project_name, answers.description)
    yield "README.md", answers.description not in child.texts["README.md"]
    yield "model.py", f"src/{answers.package_name}/model.py" not in child.texts
    host = re.compile(r"(files\.)?py" + r"thonhosted|py" + r"pi\.org|download\.py" + r"torch|np" + r"mjs\.org")
    yield from ((name, host.search(text)) for name, text in child.texts.items())  # the host of a package index


CHECKS: tuple[Callable[[Child], Faults], ...] = (
    parses, no_template_is_left, reads_as_written_by_hand, can_be_checked_out_on_windows,
    scripts_are_there_and_short_and_nothing_else_is_executable, names_are_kept_as_given,
    every_pod_asks_for_the_gpu_of_the_answer_and_fits_kubernetes, the_pipelines_are_those_of_the_answer,
    every_file_has_one_owner, versions_agree_with_the_image,
)  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_child(child: Child, check: Callable[[Child], Faults]) -> None:
    lines = [f"{child.answers.id}: {name}: {fault}" for name, fault in check(child) if fault]
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("child", [AnswerSet(*case) for case in SMALL], ids=lambda one: one.id, indirect=True)
def test_a_child_stays_small(child: Child) -> None:
    """The template's part; five lines in all are wider than 120 characters; 800 KB."""
    lines, owners = {name: text.splitlines() for name, text in child.texts.items()}, owners_in(child.folder)
    managed = [name for name in lines if owner_of(name, owners) != "seed" and not name.endswith(RESOLVED)]
    files, most = LIMITS[child.answers.project_type]
    assert len(managed) <= files
    assert sum(len(lines[name]) for name in managed) <= most
    read = [name for name in lines if not name.endswith((".lock", "constraints.txt"))]
    wide = [f"{name}: {line}" for name in read for line in lines[name] if len(line) > 120]
    assert len(wide) <= 5, wide
    assert sum(path.stat().st_size for path in checks.files_of(child.folder)) < 800_000


@pytest.mark.needs("groovy")
def test_jenkins_would_read_the_pipeline(child: Child) -> None:
    if "jenkins" in child.answers.ci:
        assert [str(problem) for problem in check(child.folder / "Jenkinsfile")] == [], child.answers.id


# shellcheck takes ten seconds of CPU for one child; the scripts of a type differ little from child to child.
@pytest.mark.slow
@pytest.mark.parametrize("child", list(filter(is_quick, every_answer_set())), ids=lambda one: one.id, indirect=True)
def test_shell_and_dockerfile_are_clean(child: Child) -> None:
    scripts = [name for name, text in child.texts.items() if text.startswith("#!/usr/bin/env bash")]
    shellcheck = (checks.BIN / "shellcheck", "--external-sources", "--source-path=SCRIPTDIR", *scripts)
    assert len(scripts) >= 8
    assert checks.said(*shellcheck, cwd=child.folder) == ""
    assert checks.said(checks.BIN / "hadolint", "--no-color", "-", text=child.texts["Dockerfile"]) == ""
