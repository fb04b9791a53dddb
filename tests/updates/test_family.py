"""From every released version, for every type: an update without edits gives what a new child has."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from gpu_repo_runtime.update.render import ANSWERS, owner_of, owners_in
from releases import released

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.needs import is_here
from tests.updates.copiers import ROOT
from tests.updates.family import Family
from tests.updates.tiny import Child, Program, make_child

RELEASED = [f"v{version}" for version in released(ROOT)] if is_here("the history of git") else []
SINCE = {"jax": "v0.4.0"}  # where a framework is younger than the releases
ROWS = [
    (version, AnswerSet(kind, framework))
    for version in RELEASED
    for kind in TYPES
    for framework in FRAMEWORKS
    if version >= SINCE.get(framework, "")
]
SLOW = {("v0.2.3", "service"), ("v0.4.0", "batch"), ("v0.5.1", "library")}  # without a framework


def rows() -> list[object]:
    """Return every release with every set; one is slow for each type."""
    made = []
    for version, answers in ROWS:
        is_slow = answers.framework == "plain" and (version, answers.project_type) in SLOW
        marks = [pytest.mark.slow if is_slow else pytest.mark.release]
        made.append(pytest.param(version, answers, id=f"{version}-{answers.id}", marks=marks))
    return made


def start(family: Family, path: Path, version: str, answers: AnswerSet) -> Child:
    """Render `answers` at `version` as a child without edits."""
    given = [f"--data={name}={value}" for name, value in answers.as_dict().items()]
    return make_child(family, path, "--vcs-ref", version, *given)


def recorded(child: Child) -> dict[str, object]:
    """Return the answers file of a child."""
    loaded: dict[str, object] = yaml.safe_load(child.read(".copier-answers.yml"))
    return loaded


@pytest.mark.parametrize(("version", "answers"), rows())
def test_an_update_without_edits_is_a_fresh_render(
    family: Family, tmp_path: Path, program: Program, version: str, answers: AnswerSet
) -> None:
    where = f"{version} {answers.id}"
    child = start(family, tmp_path / "child", version, answers)
    assert program(child, "--to", family.work_tree, "--no-lock") == 0, f"{where}: {program.out}{program.err}"
    kept = recorded(child).get("components", ())
    fresh = start(family, tmp_path / "fresh", family.work_tree, replace(answers, components=tuple(kept), layout=1))
    owned = owners_in(fresh.path)
    for name in fresh.git("ls-files").splitlines():
        if owner_of(name, owned) != "seed" and name != ANSWERS:  # new answers are at the end of what the owner has
            assert child.has(name), f"{where}: {name} did not arrive"
            assert child.read(name) == fresh.read(name), f"{where}: {name} is not as freshly rendered"
    assert recorded(child) == recorded(fresh), f"{where}: the answers differ"
    child.commit("Update")
    child.updated("--vcs-ref", family.work_tree)
    assert set(child.status()) <= {ANSWERS}, f"{where}: plain Copier finds something to change after scripts/update"
