"""The questions: how many, what they refuse and with which words, what follows from them."""

from __future__ import annotations

import itertools
import json
import keyword
import os
import re
import shutil
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml
from copier import run_copy, run_update
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.conftest import ROOT, git
from tests.sampling import every, sampled
from tests.templates.checks import files_of
from tests.templates.own import new_row
from tests.updates.copiers import run_program

QUESTIONS = {
    name: question
    for name, question in yaml.safe_load((ROOT / "copier.yml").read_text()).items()
    if not name.startswith("_") and question.get("when") is not False
}


def copy(template: Path, target: Path, **answers: object) -> str:
    """Render without trust by Copier's command; return "" or the last line of the error."""
    command = ["copy", "--quiet", "--defaults", "--vcs-ref", "HEAD"]
    command += [part for name, answer in answers.items() for part in ("--data", f"{name}={answer}")]
    done = run_program("copier", [*command, str(template), str(target)], ROOT, dict(os.environ))
    return "" if done.returncode == 0 else (done.stderr.strip() or "no message").splitlines()[-1]


def refusal(template: Path, target: Path, **answers: object) -> str:
    """Render in this process, which is faster; return "" or the message."""
    try:
        commit = git(template, "rev-parse", "HEAD").strip()  # each commit is checked out once
        run_copy(str(template), target, data=answers, defaults=True, quiet=True, vcs_ref=commit)
    except ValueError as error:
        return str(error)
    return ""


def test_at_most_nine_questions_are_asked():
    asked = [name for name, question in QUESTIONS.items() if question.get("ask") is not False]
    assert len(asked) <= 9, f"copier.yml asks {asked}"


def test_only_the_name_has_no_default() -> None:
    for name in QUESTIONS:
        assert ("default" in QUESTIONS[name]) == (name != "project_name"), f"copier.yml: {name}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("project_type", "framework"), sampled(list(zip(itertools.cycle(TYPES), FRAMEWORKS, strict=False)), every(6))
)
def test_defaults_and_a_name_are_enough_without_trust(template, render, tmp_path, project_type, framework):
    """Copier itself renders the same bytes as the cheaper Copier of the tests (tests/shared.py)."""
    child = tmp_path / "child"
    error = copy(template, child, project_name="x", project_type=project_type, framework=framework)
    assert error == "", f"{project_type}-{framework}: {error}"
    description = yaml.safe_load((child / ".copier-answers.yml").read_text())["description"]
    same = render(AnswerSet(project_type, framework, project_name="x", description=description))
    found, expected = ({path.relative_to(f): path.read_bytes() for path in files_of(f)} for f in (child, same))
    assert found.keys() == expected.keys()
    assert [str(path) for path in found if found[path] != expected[path]] == []


REFUSED = [
    ({"project_name": "My Project"}, "for example my-project"),
    ({"project_name": "Größe"}, "for example gr-e"),
    ({"project_name": "a--b"}, "for example a-b"),
    ({"project_name": "9lives"}, "for example lives"),
    ({"project_name": "a" * 200}, "at most 40 characters"),
    ({"project_name": "a", "package_name": "class"}, "for example class_app"),
    ({"project_name": "a", "package_name": "torch"}, "for example torch_app"),
    ({"project_name": "a", "package_name": "a-b"}, "for example a_b"),
    ({"project_name": "a", "project_type": "batch", "pipeline": ["kubeflow"]}, "for example [flyte]"),
    ({"project_name": "a", "project_type": "batch", "components": ["keda"]}, "for example [weights-volume]"),
    ({"project_name": "a", "description": "two\nlines"}, "without line breaks"),
    ({"project_name": "a", "description": "x" * 201}, "1 to 200 characters"),
    ({"project_name": "a", "framework": "mxnet"}, f"not in {list(FRAMEWORKS)}"),
    ({"project_name": "a", "project_type": "app"}, f"not in {list(TYPES)}"),
    (
        {"project_name": "a", "project_type": "service", "kubernetes": "maybe"},
        'true or false; for example kubernetes=true, not "maybe"',
    ),
    ({"project_name": "a", "gpu_driver": "470"}, "not in ['580', '525']"),
    ({"project_name": "a", "registry": "https://r.example.com"}, "for example registry.example.com/ml"),
    ({"project_name": "a", "registry": "r.example.com/ml/"}, "for example registry.example.com/ml"),
    ({"project_name": "a", "gpu_resource": "gpu"}, "for example nvidia.com/gpu"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "expected"), sampled(REFUSED, every(6)), ids=[str(list(a.items())[-1])[:50] for a, _ in REFUSED]
)
def test_a_wrong_answer_is_refused_with_a_right_one(template, tmp_path, answers, expected):
    error = refusal(template, tmp_path / "child", **answers)
    assert expected in error, f"{answers}: {error}"
    assert "not in [" in error or "': use " in error, f"{answers}: {error} does not begin with the rule"
    assert not (tmp_path / "child").exists(), f"{answers}: something was written"


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.text(max_size=60).filter(lambda s: not s.startswith("-")) | st.from_regex(r"[a-z0-9_ ./'\"\\-]{1,45}"))
def test_any_name_is_rendered_whole_or_refused_whole(template, tmp_path_factory, name):
    target = tmp_path_factory.mktemp("name") / "child"
    error = refusal(template, target, project_name=name)
    if error:
        assert "for example" in error, f"{name!r}: {error}"
        assert not target.exists(), f"{name!r}: refused, and something was written"
        return
    assert re.fullmatch(r"[a-z](-?[a-z0-9])*", name), f"{name!r} was taken as a name"
    package = yaml.safe_load((target / ".copier-answers.yml").read_text())["package_name"]
    assert package.isidentifier(), f"{name!r} made the package {package!r}"
    assert not keyword.iskeyword(package), f"{name!r} made the package {package!r}"
    assert (target / "src" / package / "model.py").is_file(), name
    shutil.rmtree(target)


def test_a_name_that_python_takes_gets_another_package():
    reserved = set(yaml.safe_load((ROOT / "templates" / "reserved_names.yml").read_text()))
    words = {w for w in keyword.kwlist + keyword.softkwlist if w.islower() and w != "_"}
    modules = {m for m in sys.stdlib_module_names if not m.startswith("_") and m.islower()}
    missing = (words | modules) - reserved
    assert not missing, f"templates/reserved_names.yml lacks {sorted(missing)}"


Rows = dict[str, dict[str, object]]


def changed(template: Path, folder: Path, edit: Callable[[Rows], object]) -> Path:
    """Return a copy of the template in `folder` after an edit of the catalogue's images, by their names."""
    target = folder / "template"
    if not target.exists():
        shutil.copytree(template, target)
    file = target / "base-images" / "catalog.yml"
    catalog = yaml.safe_load(file.read_text())
    rows = {row["name"]: row for row in catalog["images"]}
    edit(rows)
    file.write_text(yaml.safe_dump(catalog | {"images": list(rows.values())}))
    git(target, "add", "--all")
    git(target, "commit", "--quiet", "--message=Change the catalogue")
    return target


def committed(child: Path) -> None:
    """Commit a child as it is now."""
    git(child, "init", "--quiet")
    git(child, "add", "--all")
    git(child, "commit", "--quiet", "--allow-empty", "--message=State")


def update(child: Path, **answers: object) -> None:
    committed(child)
    run_update(child, data=answers, defaults=True, overwrite=True, quiet=True, vcs_ref="HEAD")


TODAY = date.today()
OVER = (TODAY - timedelta(days=1)).isoformat()
OLD_IMAGE = {"project_name": "a", "framework": "torch", "gpu_driver": "525"}
NO_IMAGE = [
    (
        lambda rows: rows["torch-cu12"].update(end_of_life=OVER),
        ("torch-cu12 for driver 525", f"end of life on {OVER}", "one of 580", "plain, tensorflow, jax"),
    ),
    (
        lambda rows: rows["torch-cu12"].update(state="retired"),
        ("torch-cu12 for driver 525 is retired", "one of 580", "plain, tensorflow, jax"),
    ),
    (
        lambda rows: rows.pop("torch-cu12"),
        ("torch runs on driver 525", "oldest it runs on is 580", "newer driver", "plain, tensorflow, jax"),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("edit", "parts"), NO_IMAGE, ids=["ended", "retired", "none"])
def test_no_child_starts_without_an_image_that_gets_fixes(template, tmp_path, edit, parts):
    copy_ = changed(template, tmp_path, edit)
    error = refusal(copy_, tmp_path / "new", **OLD_IMAGE)
    assert [part for part in parts if part not in error] == [], error
    assert not (tmp_path / "new").exists()
    assert refusal(copy_, tmp_path / "other", **OLD_IMAGE | {"gpu_driver": "580"}) == ""


@pytest.mark.slow
def test_a_child_that_is_on_an_image_at_its_end_may_stay(template, tmp_path, capfd):
    """It is warned of before the day; on the day itself it is still fine."""
    copy_ = changed(template, tmp_path, lambda rows: rows["torch-cu12"].update(end_of_life=TODAY.isoformat()))
    child = tmp_path / "child"
    run_copy(str(copy_), child, data=OLD_IMAGE, defaults=True, vcs_ref="HEAD")
    assert f"Support for the image torch-cu12 ends on {TODAY}" in capfd.readouterr().err
    committed(child)
    copy_ = changed(template, tmp_path, NO_IMAGE[0][0])
    kept = yaml.safe_load((child / ".copier-answers.yml").read_text())
    recorded = {name: answer for name, answer in kept.items() if not name.startswith("_")}
    assert refusal(copy_, tmp_path / "again", **recorded) == "", "scripts/update renders with all answers"
    update(child)
    update(child, registry="registry.example.com/other")
    assert "other/torch-cu12:" in (child / "Dockerfile").read_text()
    copy_ = changed(template, tmp_path, NO_IMAGE[1][0])
    assert "torch-cu12 for driver 525 is retired" in refusal(copy_, tmp_path / "last", **recorded)


OWN = {"project_name": "a", "framework": "torch", "framework_version": "ours"}


@pytest.fixture(scope="module")
def own_row(template, tmp_path_factory):
    """A copy of the template with a row of a company's own, as docs/base-images.md says: torch-cu13 again."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copytree(template, folder / "template")
    new_row(folder / "template", "ours-cu13", "torch-cu13")
    return changed(template, folder, lambda rows: None)


@pytest.mark.slow
def test_a_child_takes_a_companys_own_row_and_leaves_it(own_row, tmp_path):
    """The answer is kept, an update keeps the image, and `newest` is the way back, which leaves no trace."""
    child = tmp_path / "child"
    assert refusal(own_row, child, **OWN) == ""
    assert yaml.safe_load((child / ".copier-answers.yml").read_text())["framework_version"] == "ours"
    assert "ours-cu13 runs on driver 580 or newer" in refusal(own_row, tmp_path / "old", **OWN | {"gpu_driver": "525"})
    for answers, image in (({}, "ours-cu13"), ({"framework_version": "newest"}, "torch-cu13")):
        update(child, **answers)
        assert f"/{image}:" in (child / "Dockerfile").read_text(), answers
    assert "framework_version" not in (child / ".copier-answers.yml").read_text()


@pytest.mark.slow
def test_a_released_digest_is_pinned(template, tmp_path):
    digest, name = "sha256:" + "0123456789abcdef" * 4, "plain-cu13"
    shutil.copytree(template, tmp_path / "template")
    released = {name: {"tag": "2026.11.21", "digest": digest}}
    (tmp_path / "template" / "base-images" / "released.json").write_text(json.dumps(released))
    copy_ = changed(template, tmp_path, lambda rows: None)
    assert refusal(copy_, tmp_path / "child", project_name="a", registry="localhost:5000") == ""
    dockerfile = (tmp_path / "child" / "Dockerfile").read_text()
    assert f"ARG BASE_IMAGE=localhost:5000/{name}:2026.11.21@{digest}\n" in dockerfile


def test_the_copier_that_children_need_is_the_one_that_is_tested():
    pinned = re.search(r"(?m)^copier==(.*)$", (ROOT / "requirements-dev.in").read_text())
    oldest = yaml.safe_load((ROOT / "copier.yml").read_text())["_min_copier_version"]
    assert pinned is not None
    assert pinned[1] == oldest, "copier.yml accepts a Copier that no test runs: test it too, or raise the minimum"
