"""From every released version, for every type: an update brings the fixes and keeps what the owner did."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from gpu_repo_runtime.update.ownership import owners_in
from releases import next_version, released

from tests.answers import COMPONENTS, TYPES, AnswerSet
from tests.needs import is_here
from tests.sampling import every, sampled
from tests.shared import once
from tests.updates.copiers import ROOT, copier_at
from tests.updates.family import ADDED, COLLIDING, DELETED, FIX, FIXED, Family, clone_family, release_next
from tests.updates.tiny import MARKER, Child, make_child

SETTINGS = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
RELEASED = [f"v{version}" for version in released(ROOT)] if is_here("the history of git") else []
SETS = [AnswerSet(project_type, framework) for project_type in TYPES for framework in ("plain", "torch")]
OWNER = "# the owner's line\n"


def marks(version: str, answers: AnswerSet) -> list[pytest.MarkDecorator]:
    """Return what says which run has it: the quick one has one from the newest release, CI every type."""
    if version == "the work tree":
        # library torch, batch plain, service torch
        return [pytest.mark.slow if answers in (SETS[1], SETS[2], SETS[5]) else pytest.mark.release]
    return [] if version == RELEASED[-1] and answers == AnswerSet("service", "plain") else [pytest.mark.release]


def cases(versions: list[str]) -> list[object]:
    """Return every version with every set."""
    return [
        pytest.param(
            version,
            answers,
            id=f"{version}-{answers.id}",
            marks=marks(version, answers),
        )
        for version in versions
        for answers in SETS
    ] or [pytest.param("", SETS[0], marks=pytest.mark.skip(reason="no version is released yet"))]


@pytest.fixture(scope="session")
def family(shared: Path) -> Family:
    """Return this repository with its releases, the work tree and a made-up next release as tags."""

    def make(target: Path) -> None:
        release_next(clone_family(target, copier_at(shared / "family-home")))

    path = once(shared / "family", make)
    copier = copier_at(shared / "family-home")
    return Family(path, copier, RELEASED, f"v{next_version(ROOT)}")


def options(answers: AnswerSet) -> list[str]:
    """Return the answers as options of `copier copy`."""
    return [part for name, value in answers.as_dict().items() for part in ("--data", f"{name}={value}")]


def start(family: Family, path: Path, version: str, answers: AnswerSet) -> Child:
    """Render `answers` at `version` as a child without edits."""
    return make_child(family, path, "--vcs-ref", version, *options(answers))


def edits(child: Child, answers: AnswerSet) -> dict[str, str | None]:
    """Return the owner's edits: one and more of every class of files."""
    package = f"src/{answers.package_name}"
    appended = [
        "Dockerfile",
        FIXED,
        COLLIDING,
        "README.md",
        "pyproject.toml",
        "requirements.lock",
        f"{package}/model.py",
    ]
    tests = [str(path.relative_to(child.path)) for path in (child.path / "tests").glob("*.py")]
    own = {f"{package}/own.py": OWNER, "scripts/own": OWNER, "docs/own.md": OWNER}
    return {name: child.read(name) + OWNER for name in (*appended, *tests)} | own | {DELETED: None}


def recorded(child: Child) -> dict[str, object]:
    """Return the answers file of a child."""
    loaded: dict[str, object] = yaml.safe_load(child.read(".copier-answers.yml"))
    return loaded


def new_answers(now: dict[str, object], before: dict[str, object]) -> dict[str, object]:
    """Return the answers to questions that nobody is asked and that came after the release: their defaults.

    A repository from before there was a choice keeps the layout of then, and a service every component.
    """
    unasked = {name: q["default"] for name, q in SETTINGS.items() if isinstance(q, dict) and q.get("ask") is False}
    unasked |= {"layout": 1, "training": True}
    unasked["components"] = list(COMPONENTS) if now["project_type"] == "service" else []
    return {name: default for name, default in unasked.items() if name in now and name not in before}


def check_the_owner_kept_everything(child: Child, before: dict[str, str | None], where: str) -> None:
    """Assert that each edit is still there, seeds and own files byte by byte."""
    for name, text in before.items():
        if text is None:
            assert not child.has(name), f"{where}: {name} was deleted by the owner and came back"
        elif name in ("Dockerfile", FIXED, COLLIDING):
            assert OWNER in child.read(name), f"{where}: the owner's line in {name} is lost"
        else:
            assert child.read(name) == text, f"{where}: {name} is the owner's and was changed"


def check_second_update_is_a_no_op(child: Child, where: str) -> None:
    """Assert that the same update again changes nothing, also where conflicts were settled."""
    child.commit("Update")
    child.updated("--vcs-ref", str(recorded(child)["_commit"]))
    assert child.status() == {}, f"{where}: a second update changes files"


@pytest.mark.parametrize(("version", "answers"), cases([*RELEASED, "the work tree"]))
def test_update_keeps_the_edits_and_brings_the_fixes(
    family: Family, tmp_path: Path, version: str, answers: AnswerSet
) -> None:
    where = f"{version} {answers.id}"
    child = start(family, tmp_path / "child", family.work_tree if version == "the work tree" else version, answers)
    mine = edits(child, answers)
    child.edit(mine)
    answered = recorded(child)
    child.updated("--vcs-ref", family.next)

    check_the_owner_kept_everything(child, mine, where)
    assert child.unmerged() == {COLLIDING}, f"{where}: conflicts where nobody collided"
    for name in (FIXED, COLLIDING):
        assert FIX in child.read(name), f"{where}: the fix of {name} did not arrive"
    assert MARKER in child.read(COLLIDING), f"{where}: the collision carries no markers"
    for name in child.git("ls-files").splitlines():
        assert name == COLLIDING or not child.has(name) or f"\n{MARKER}" not in child.read(name), (
            f"{where}: marker in {name}"
        )
    assert child.read(ADDED).endswith(FIX), f"{where}: the new managed file did not arrive"
    assert "2099.01" in child.read("Dockerfile"), f"{where}: the new image did not arrive"
    assert "==99.9" in child.read("constraints.txt"), f"{where}: the new constraints did not arrive"
    now = recorded(child)
    assert now == answered | {"_commit": family.next} | new_answers(now, answered), f"{where}: the answers changed"

    (child.path / COLLIDING).write_text(child.read(COLLIDING).split(MARKER)[0] + OWNER + FIX)
    check_second_update_is_a_no_op(child, where)


@pytest.mark.parametrize(("version", "answers"), cases(RELEASED))
@pytest.mark.slow
def test_update_to_the_work_tree_equals_a_fresh_render(
    family: Family, tmp_path: Path, version: str, answers: AnswerSet
) -> None:
    where = f"{version} {answers.id}"
    child = start(family, tmp_path / "child", version, answers)
    child.updated("--vcs-ref", family.work_tree)
    kept = recorded(child).get("components", ())
    fresh = start(family, tmp_path / "fresh", family.work_tree, replace(answers, components=tuple(kept), layout=1))
    assert child.unmerged() == set(), f"{where}: conflicts in a child without edits"
    owned = owners_in(fresh.path)
    for name in fresh.git("ls-files").splitlines():
        if owned.of(name) != "seed":
            assert child.has(name), f"{where}: {name} did not arrive"
            assert child.read(name) == fresh.read(name), f"{where}: {name} is not as freshly rendered"
    check_second_update_is_a_no_op(child, where)


@pytest.mark.release
@pytest.mark.parametrize("framework", ["plain", "torch", "tensorflow"])
@pytest.mark.parametrize("project_type", TYPES)
@pytest.mark.parametrize("version", [*RELEASED, "the work tree"])
def test_own_tests_of_an_updated_child_pass(
    family: Family, tmp_path: Path, version: str, project_type: str, framework: str, request: pytest.FixtureRequest
) -> None:
    answers = AnswerSet(project_type, framework)
    build = ["--framework", request.getfixturevalue("torch_build")] if framework == "torch" else []
    child = start(family, tmp_path / "child", family.work_tree if version == "the work tree" else version, answers)
    package = f"src/{answers.package_name}"
    child.edit({name: child.read(name) + OWNER for name in ("Dockerfile", f"{package}/model.py", "README.md")})
    child.updated("--vcs-ref", family.next if version == "the work tree" else family.work_tree)
    assert child.unmerged() == set()
    child.commit("Update")
    for script in (["scripts/setup", *build], ["scripts/test"]):
        done = subprocess.run(script, cwd=child.path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{version} {answers.id}: {script[0]} fails: {done.stdout}{done.stderr}"


def retire(name: str) -> Callable[[str], str]:
    """Return a change of the catalogue that retires the image `name`."""

    def change(text: str) -> str:
        head, tail = text.split(f"- name: {name}\n")
        state = "state: supported" if "state: supported" in tail.split("- name:")[0] else "state: maintenance"
        return f"{head}- name: {name}\n{tail.replace(state, 'state: retired', 1)}"

    return change


@pytest.mark.parametrize(
    ("image", "answers"),
    sampled(
        [
            ("torch-cu12", AnswerSet("service", "torch", gpu_driver="525")),
            ("plain-cu12", AnswerSet("library", "plain", gpu_driver="525")),
            ("tensorflow-cu12", AnswerSet("batch", "tensorflow", gpu_driver="580")),
            ("plain-cu13", AnswerSet("service", "plain", gpu_driver="580")),
        ],
        every(4),
    ),
    ids=lambda value: value if isinstance(value, str) else value.id,
)
def test_retired_image_stops_the_update_of_a_child_that_uses_it(
    family: Family, tmp_path: Path, image: str, answers: AnswerSet
) -> None:
    child = start(family, tmp_path / "child", family.work_tree, answers)
    clone = Family(tmp_path / "family", family.copier, [], family.work_tree)
    subprocess.run(["git", "clone", "--quiet", str(family.path), str(clone.path)], check=True)
    clone.change("base-images/catalog.yml", retire(image))
    clone.release("v99.0.0")
    child.edit({".copier-answers.yml": child.read(".copier-answers.yml").replace(str(family.path), str(clone.path))})
    done = child.update()
    assert done.returncode == 1, f"{image} is retired and the update of {answers.id} went on: {child.git('diff')}"
    assert child.status() == {}, "the refused update left something behind"


@pytest.mark.release
def test_scripts_update_of_a_child_needs_nothing_but_its_own_tools(family: Family, tmp_path: Path) -> None:
    answers = AnswerSet("library", "plain")
    child = start(family, tmp_path / "child", family.work_tree, answers)
    mine = edits(child, answers)
    child.edit(mine)

    def script(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = family.copier.environment() | {"RUN_IN": "venv"} | more
        return subprocess.run(command, cwd=child.path, env=environment, capture_output=True, text=True, check=False)

    blind = script("scripts/update", "--dry-run", PYTHON="no-such-python")
    assert blind.returncode == 1, "3 would mean conflicts"
    assert "no Python 3.11" in blind.stderr
    tried = script("scripts/update", "--dry-run")
    assert tried.returncode == 3, tried.stderr
    assert not (child.path / ".venv").exists()
    assert f"conflict   {COLLIDING}: " in tried.stdout
    assert f"opted out  {DELETED}: " in tried.stdout
    assert child.status() == {}, "a dry run changed something"
    done = script("scripts/update", "--answer", "registry=other.example.com/x")
    assert done.returncode == 3, done.stderr
    check_the_owner_kept_everything(child, mine, "scripts/update")
    assert child.unmerged() == {COLLIDING}
    assert "other.example.com/x" in child.read("Dockerfile")
    assert script("scripts/update").returncode == 1, "an update on top of an unfinished one must be refused"
