"""Another answer moves or names everything: no update ends with 0 over a repository that is half moved."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.answers import AnswerSet
from tests.conftest import copy_work_tree
from tests.shared import once
from tests.updates.copiers import Copier
from tests.updates.program import Program
from tests.updates.tiny import Child, Template, make_child

OWN = "from {0}.model import Model\n\nimport {0}.device\n\nprint(Model, {0}.device)\n"


@pytest.fixture
def family(shared: Path, copier: Copier) -> Template:
    """Return this work tree as a template with one release."""

    def make(target: Path) -> None:
        copy_work_tree(target)
        made = Template(target, copier)
        made.git("init", "--quiet")
        made.commit("The work tree")
        made.git("tag", "v9.0.0")

    return Template(once(shared / "switch-family", make), copier)


def start(family: Template, folder: Path, answers: AnswerSet) -> Child:
    options = [part for name, value in answers.as_dict().items() for part in ("--data", f"{name}={value}")]
    return make_child(family, folder / "child", *options)


def same_as_fresh(family: Template, child: Child, folder: Path, changed: dict[str, str]) -> None:
    """Assert that a child without edits is now what a fresh render with its answers is."""
    answers = {k: v for k, v in yaml.safe_load(child.read(".copier-answers.yml")).items() if not k.startswith("_")}
    assert changed.items() <= answers.items()
    options = [part for name, value in answers.items() for part in ("--data", f"{name}={value}")]
    fresh = make_child(family, folder / "fresh", *options)
    child.commit("Switched")
    mine, theirs = (set(one.git("ls-files").splitlines()) for one in (child, fresh))
    assert mine == theirs, f"missing: {sorted(theirs - mine)}, left over: {sorted(mine - theirs)}"
    differing = [name for name in mine if (child.path / name).read_bytes() != (fresh.path / name).read_bytes()]
    assert differing == [], differing


@pytest.mark.parametrize(
    ("answers", "switch"),
    [
        pytest.param(AnswerSet("library", "plain"), {"package_name": "other_name"}, marks=pytest.mark.slow),
        pytest.param(AnswerSet("library", "plain"), {"project_type": "batch"}, marks=pytest.mark.slow),
        pytest.param(AnswerSet("service", "plain"), {"framework": "torch"}, marks=pytest.mark.release),
    ],
    ids=lambda value: value.id if isinstance(value, AnswerSet) else "-".join(value),
)
def test_a_switch_without_edits_is_a_fresh_render(
    family: Template, program: Program, tmp_path: Path, answers: AnswerSet, switch: dict[str, str]
) -> None:
    child = start(family, tmp_path, answers)
    options = [part for name, value in switch.items() for part in ("--answer", f"{name}={value}")]
    assert program(child, *options) == 0, program.out + program.err
    same_as_fresh(family, child, tmp_path, switch)


@pytest.mark.slow
def test_a_package_moves_with_the_owners_modules(family: Template, program: Program, tmp_path: Path) -> None:
    answers = AnswerSet("service", "plain")
    old = answers.package_name
    child = start(family, tmp_path, answers)
    model = child.read(f"src/{old}/model.py") + "\n\nMINE = 1\n"
    child.edit({f"src/{old}/model.py": model, f"src/{old}/own.py": "MINE = 2\n", "tools/use.py": OWN.format(old)})
    assert program(child, "--answer", "package_name=other_name") == 3, program.out + program.err
    assert f"still with the old package name {old}: " in program.out
    assert "tools/use.py" in program.out
    assert child.read("src/other_name/own.py") == "MINE = 2\n"
    assert child.read("src/other_name/model.py").endswith("MINE = 1\n")
    assert f"{old}." not in child.read(
        "tests/test_service.py" if child.has("tests/test_service.py") else "pyproject.toml"
    )
    assert not (child.path / "src" / old).exists()
    child.commit("Moved")
    history = child.git("log", "--follow", "--format=%s", "--", "src/other_name/own.py")
    assert history.splitlines() == ["Moved", "The owner's edit"]


@pytest.mark.slow
def test_a_type_that_goes_keeps_and_names_the_owners_files(family: Template, program: Program, tmp_path: Path) -> None:
    answers = AnswerSet("library", "plain")
    child = start(family, tmp_path, answers)
    search = f"src/{answers.package_name}/search.py"
    child.edit({search: child.read(search) + "\n\nMINE = 1\n"})
    assert program(child, "--answer", "project_type=batch") == 3, program.out + program.err
    assert child.read(search).endswith("MINE = 1\n")
    assert f"conflict   {search}: the template dropped it" in program.out
    assert child.has(f"src/{answers.package_name}/model.py"), "the new type's files did not arrive"


@pytest.mark.slow
def test_another_ci_system_brings_its_pipeline_and_takes_the_other(
    family: Template, program: Program, tmp_path: Path
) -> None:
    """What the owner keeps beside the template's pipeline stays, and so does a pipeline with the owner's edits."""
    child = start(family, tmp_path, AnswerSet("library", "plain"))
    child.edit({".github/workflows/own.yml": "on: push\n"})
    pipelines = {"jenkins": "Jenkinsfile", "github": ".github/workflows/ci.yml", "gitlab": ".gitlab-ci.yml"}
    for systems in (["github"], ["gitlab", "github"], ["gitlab"]):
        assert program(child, "--answer", f"ci=[{','.join(systems)}]") == 0, program.out + program.err
        child.commit(f"On {systems}")
        assert {system for system, name in pipelines.items() if child.has(name)} == set(systems)
        assert child.read(".github/workflows/own.yml") == "on: push\n"
        listed = yaml.safe_load(child.read(".copier-ownership.yml"))["managed"]
        assert {system for system, name in pipelines.items() if name in listed} == set(systems)
    child.edit({".gitlab-ci.yml": child.read(".gitlab-ci.yml") + "mine:\n  script: ['true']\n"})
    assert program(child, "--answer", "ci=[jenkins]") == 3, program.out + program.err
    assert child.has("Jenkinsfile")
    assert "mine:" in child.read(".gitlab-ci.yml")
