"""An adoption as a whole: all of theirs, all of the template, one commit on a branch, and updates like everybody's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import adopt
import pytest
import yaml
from adoption import adopting, baseline, locks, merge, plan
from adoption.repository import AdoptError
from adoption.requirements import Fitted
from adoption.tree import read_tree
from new import NewError

from tests.adopt.conftest import Make
from tests.adopt.test_detect import findings
from tests.conftest import ROOT, git
from tests.sampling import every, sampled
from tests.shared import once
from tests.updates.copiers import copier_at
from tests.updates.family import Family, clone_family, release_next

CODE = "import sys, os\nprint( 'old style' )\n"
OLD = {
    "setup.py": "from setuptools import *\nsetup(name='nets', install_requires=['numpy'], packages=find_packages())\n",
    "nets/__init__.py": CODE,
    "nets/two.py": "print 'python two'\n",
    "tests/test_nets.py": "import pytest\n\n\n@pytest.mark.gpu\ndef test_it():\n    pass\n",
    "checks/test_more.py": "def test_more():\n    pass\n",
    "train.py": CODE,
    "scripts/old.sh": "#!/bin/sh\necho $1\n",
    "README.md": "# Nets\nNets that were here before.",
    "Dockerfile": "FROM debian\n",
    ".pre-commit-config.yaml": "repos: []\n",
    ".gitignore": "*.whl\nwheels/\n*.lock\ndata\r\nno end",
    "notebook.ipynb": json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
    "docs/ünï cödé.txt": "x\n",
}


@pytest.fixture(scope="module")
def family(shared: Path) -> Family:
    """Return this repository with its work tree as a release, and a made-up next one."""
    path = once(shared / "family", lambda target: release_next(clone_family(target, copier_at(shared / "family-home"))))
    return Family(path, copier_at(shared / "family-home"), [], f"v{_version(path)}")


def _version(path: Path) -> str:
    """Return the version before the made-up release."""
    return git(path, "show", "HEAD~1:VERSION").strip()


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Let nothing be resolved; return the folders in which it would have been."""
    asked: list[Path] = []

    def run_lock(clone: Path) -> str:
        asked.append(clone)
        return ""

    monkeypatch.setattr(locks, "run_lock", run_lock)
    return asked


ANSWERS = ("--answers", "project_type=batch", "--json")


def files(folder: Path, commit: str) -> dict[str, bytes]:
    """Return what a commit holds."""
    names = git(folder, "ls-tree", "-r", "-z", "--name-only", commit).split("\0")[:-1]
    return {n: subprocess.run(["git", "show", f"{commit}:{n}"], cwd=folder, capture_output=True).stdout for n in names}


@pytest.mark.slow
@pytest.mark.usefixtures("no_index")
def test_everything_of_theirs_stays_and_everything_of_ours_comes(
    old: Make, template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = old(OLD)
    assert adopt.main([str(folder), "--template", str(template), "--version", "HEAD", *ANSWERS]) == 0
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "rev-parse", "--abbrev-ref", "HEAD").strip() == "main"
    assert git(folder, "rev-list", "--count", "main..adopt-template").strip() == "1"
    _theirs_are_whole(folder)
    _ours_works(folder, json.loads(capsys.readouterr().out))


@pytest.mark.release
@pytest.mark.usefixtures("no_index")
def test_a_dry_run_leaves_nothing_and_updates_are_ordinary(old: Make, family: Family) -> None:
    folder = old(OLD)
    more = ["--template", str(family.path), "--version", family.work_tree, *ANSWERS]
    assert adopt.main([str(folder), "--dry-run", *more]) == 0
    assert git(folder, "branch", "--format=%(refname:short)").split() == ["main"]
    assert adopt.main([str(folder), *more]) == 0
    git(folder, "switch", "--quiet", "adopt-template")
    _updates(folder, family)


@pytest.mark.usefixtures("no_index")
@pytest.mark.slow
def test_packages_of_a_pyproject_are_locked_from_there(
    old: Make, template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = old(
        {"pyproject.toml": "[project]\nname = 'x'\nversion = '1'\ndependencies = ['tqdm']\n", "x/__init__.py": ""}
    )
    assert adopt.main([str(folder), "--template", str(template), "--version", "HEAD", "--json"]) == 0, (
        capsys.readouterr()
    )
    after = files(folder, "adopt-template")
    assert yaml.safe_load(after[".copier-answers.yml"])["adopted"]["asks"] is True
    assert "--requirements requirements --project" in after["scripts/lock"].decode()
    assert "tqdm" not in after["requirements.in"].decode()


@pytest.mark.usefixtures("no_index")
@pytest.mark.slow
def test_a_framework_that_the_version_lacks_becomes_plain_with_the_reason(
    old: Make, template: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = adopting.start

    def start(place: str, target: Path, answers: list[str], *more: object) -> str:
        if "framework=jax" in answers:
            raise NewError("framework cannot be 'jax': take plain or torch")
        return real(place, target, answers, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(adopting, "start", start)
    folder = old({"requirements.txt": "jax\n", "run.py": "import jax\n"})
    assert adopt.main([str(folder), "--template", str(template), "--version", "HEAD", "--json", "--dry-run"]) == 0
    found = json.loads(capsys.readouterr().out)["answers"]["framework"]
    assert (found["answer"], "no such choice" in found["reason"]) == ("plain", True)


def _theirs_are_whole(folder: Path) -> None:
    before, after = files(folder, "main"), files(folder, "adopt-template")
    changed = {name for name, text in before.items() if after[name] != text}
    assert changed == {".gitignore"}, changed
    assert after[".gitignore"].startswith(before[".gitignore"]), "the lines of theirs, with their ends"


def _ours_works(folder: Path, told: dict[str, object]) -> None:
    after = files(folder, "adopt-template")
    kinds = {entry["path"]: entry["kind"] for entry in told["files"]}  # type: ignore[attr-defined]
    assert kinds["Dockerfile"] == "beside"
    assert "Dockerfile" in after
    assert kinds["README.md"] == kinds[".pre-commit-config.yaml"] == "kept"
    image = after["image.Dockerfile"].decode()
    assert "COPY --chmod=755 nets/ nets/\nCOPY --chmod=755 train.py train.py\n" in image
    assert "ENV PYTHONPATH=/app/src:/app" in image
    assert any(name.startswith("wheels/") and name.endswith(".whl") for name in after), "*.whl is in their .gitignore"
    assert "Your code from before can be imported here: nets." in after["src/nets_job/model.py"].decode()
    settings = after["pytest.ini"].decode()
    assert "testpaths = tests checks\n" in settings
    assert "\n    gpu: " in settings
    assert "| grep -vxF scripts/old.sh |" in after["scripts/lint"].decode()
    assert after["requirements.in"].decode().count("numpy") == 1
    adopted = yaml.safe_load(after[".copier-answers.yml"])["adopted"]
    assert adopted["code"] == ["nets/", "train.py"]
    assert {"Dockerfile", "README.md", "scripts/old.sh"} <= set(adopted["kept"])
    git(folder, "switch", "--quiet", "adopt-template")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([baseline.RUFF, *command, "."], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    git(folder, "switch", "--quiet", "main")


def _updates(folder: Path, family: Family) -> None:
    program = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "safe_update.py"), "--repository", str(folder)]
    again = subprocess.run([*program, "--to", family.work_tree], capture_output=True, text=True)
    assert (again.returncode, git(folder, "status", "--porcelain")) == (0, ""), again.stdout + again.stderr
    later = subprocess.run([*program, "--to", family.next], capture_output=True, text=True)
    assert later.returncode == 0, later.stdout + later.stderr
    assert not git(folder, "ls-files", "-u")
    assert (folder / "Dockerfile").read_text() == "FROM debian\n"
    assert (folder / "scripts" / "added").is_file()


def test_a_script_of_the_same_name_is_refused_and_named(old: Make) -> None:
    tree = read_tree(old({"train.py": CODE, "scripts/test": "#!/bin/sh\n", "wheels": "a file\n"}))
    with pytest.raises(AdoptError) as refused:
        plan.kept_paths(tree, ["scripts/test", "wheels/a.whl", "README.md"], set())
    assert "scripts/test is a file of the template, too" in str(refused.value)
    assert "wheels is a file, and the template has a folder of that name" in str(refused.value)


@pytest.mark.release
def test_a_version_that_never_heard_of_it_is_refused(
    old: Make, family: Family, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adopt.main([str(old({"a.py": CODE})), "--template", str(family.path), "--version", "v0.2.3"]) == 1
    assert "cannot adopt yet" in capsys.readouterr().err


@pytest.mark.parametrize("taken", [set(), {"Dockerfile", "README.md"}])
def test_their_file_makes_room_only_where_it_is_asked_to(taken: set[str], old: Make) -> None:
    tree = read_tree(old({"a.py": CODE, "Dockerfile": "FROM x\n", "README.md": "# A\n"}))
    kept = plan.kept_paths(tree, ["Dockerfile", ".dockerignore", "README.md"], taken)
    assert set(kept) == (
        {"pyproject.toml"} if taken else {"Dockerfile", ".dockerignore", "README.md", "pyproject.toml"}
    )


@pytest.mark.parametrize(
    ("files_there", "shadowed"),
    [
        ({"pyproject.toml": "[tool.ruff]\n[tool.pytest.ini_options]\n"}, {"ruff.toml", "pytest.ini"}),
        ({"setup.cfg": "[tool:pytest]\n"}, {"pytest.ini"}),
        ({".ruff.toml": ""}, {"ruff.toml"}),
        ({"tox.ini": "[tox]\n"}, set()),
    ],
)
def test_settings_of_theirs_stay_in_force(files_there: dict[str, str], shadowed: set[str], old: Make) -> None:
    tree = read_tree(old({"a.py": CODE, **files_there}))
    assert set(plan.kept_paths(tree, ["ruff.toml", "pytest.ini"], set())) == {"pyproject.toml", *shadowed}


MESSAGES = {
    "Because torchaudio<2.1 depends on torch<2.1 and you require torchaudio, they are unsatisfiable.": "torchaudio",
    "Failed to build `old-thing==1.0`\n  The build backend returned an error": "old-thing",
    "Because cuml-cu11 was not found in the package registry and you require cuml-cu11, unsatisfiable.": "cuml-cu11",
}


@pytest.mark.parametrize("message", sampled(MESSAGES, every(3)))
def test_a_package_that_does_not_resolve_is_widened_then_left_out_and_named(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = MESSAGES[message]
    answers = iter([message, message, ""])
    monkeypatch.setattr(locks, "run_lock", lambda clone: next(answers))
    wanted = locks.Wanted([Fitted(f"{name}==1.0", "setup.py"), Fitted("fits", "setup.py")], [], [])
    result = locks.resolve(tmp_path, "requirements", wanted, False, "torch-cu13")
    assert [line.text for line in wanted.run] == ["fits"]
    [told] = result.out.values()
    assert name in told
    assert "torch-cu13" in told
    assert "Ask for a version that fits" in told
    assert f"# {name}>=1.0  (setup.py: " in (tmp_path / "requirements.in").read_text()


def test_the_package_with_a_bound_gives_way() -> None:
    message = (
        "Because torchaudio>=0.9.0,<=0.13.1 has no wheels with a matching Python version tag and you require "
        "torch>=1.8.1 and torchaudio>=0.8,<2.1, your requirements are unsatisfiable."
    )
    assert locks.culprit(message, ["torch", "torchaudio"], {"torchaudio"}) == "torchaudio"
    message = "Because b==1.0 depends on a<2 and you require a>=2, we conclude that you require b==1.0, unsatisfiable."
    assert locks.culprit(message, ["a", "b"], {"b"}) == "b"


def test_lfs_does_not_take_the_wheel(old: Make) -> None:
    folder = old({".gitattributes": "*.whl filter=lfs diff=lfs merge=lfs -text"})
    assert merge.kept_out_of_lfs(folder, ["wheels/a-1.whl", "a.py"])
    assert merge.kept_out_of_lfs(folder, ["wheels/a-2.whl"]) == []


def test_setuptools_is_told_what_is_theirs_where_it_would_look_around(old: Make) -> None:
    theirs = "# mine\n[build-system]\nbuild-backend = 'setuptools.build_meta'\n\n[project]\nname='x'\n"
    folder = old({"pyproject.toml": theirs, "x/__init__.py": ""})
    assert merge.found_packages(folder, findings(folder), "x_gpu")
    text = (folder / "pyproject.toml").read_text()
    assert text.startswith(theirs)
    assert '[tool.setuptools.packages.find]\ninclude = ["x", "x.*"]' in text
    assert merge.found_packages(folder, findings(folder), "x_gpu") == ""


def test_what_differs_by_its_line_ends_alone_is_not_committed(old: Make) -> None:
    folder = old({"a.ipynb": "one\r\n", "README.md": "# A\n"})
    for name in ("a.ipynb", "README.md", "new"):
        (folder / name).write_text("another\n")
    assert sorted(adopting._changed(folder, [plan.Entry("README.md", "merged")])) == ["README.md", "new"]
