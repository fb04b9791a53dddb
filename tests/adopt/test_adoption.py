"""An adoption as a whole: all of theirs, all of the template, one commit on a branch, and updates like everybody's."""

import json
import subprocess
import sys
from pathlib import Path

import adopt
import pytest
import yaml
from adoption import placing
from adoption.tree import read_tree

from tests.adopt.conftest import Make
from tests.conftest import ROOT, git
from tests.templates.test_child import run
from tests.updates.family import Family

RUFF = str(Path(sys.executable).with_name("ruff"))
CODE = "import sys, os\nprint( 'old style' )\n"
OLD = {
    "setup.py": "from setuptools import *\nsetup(name='nets', install_requires=['numpy'], packages=find_packages())\n",
    "nets/__init__.py": CODE,
    "nets/two.py": "print 'python two'\n",
    "tests/test_nets.py": "import pytest\n\n\n@pytest.mark.gpu\ndef test_it():\n    pass\n",
    "checks/test_more.py": "def test_more():\n    pass\n",
    "train.py": CODE,
    "scripts/old.sh": "#!/bin/sh\necho $1\n",
    "LICENSE": "MIT\n",
    "README.md": "# Nets\nNets that were here before.",
    "Dockerfile": "FROM debian\n",
    ".pre-commit-config.yaml": "repos: []\n",
    ".gitignore": "*.whl\nwheels/\n*.lock\ndata\r\nno end",
    "notebook.ipynb": json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
    "docs/ünï cödé.txt": "x\n",
}


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be resolved."""
    monkeypatch.setenv("UV_NO_INDEX", "1")


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


@pytest.mark.slow
def test_make_adopt_ends_well_where_packages_are_left_to_do(old: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = old({"train.py": "import torch\n", "requirements.txt": "torch==1.9\nnowhere==9\n"})
    monkeypatch.setenv("UV_NO_INDEX", "1")
    given = [f"REPO={folder}", "VERSION=HEAD", "DATA=project_type=batch project_name=nets", "JSON=1"]
    done = subprocess.run(["make", "--silent", "adopt", *given], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["answers"]["project_name"]["value"], bool(told["to_do"])) == ("nets", True)
    assert "requirements.txt requires torch==1.9; the image has torch " in " ".join(told["to_know"])
    assert git(folder, "branch", "--format=%(refname:short)").split() == ["adopt-template", "main"]
    after = files(folder, "adopt-template")
    assert after["requirements.in"].decode().endswith("# torch\n# nowhere==9\n")
    assert b"nowhere" not in after["requirements.lock"]


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
    assert "tqdm" not in after["requirements.in"].decode()


def _theirs_are_whole(folder: Path) -> None:
    before, after = files(folder, "main"), files(folder, "adopt-template")
    changed = {name for name, text in before.items() if after[name] != text}
    assert changed == {".gitignore"}, changed
    assert after[".gitignore"].startswith(before[".gitignore"]), "the lines of theirs, with their ends"


def _ours_works(folder: Path, told: dict[str, object]) -> None:
    after = files(folder, "adopt-template")
    kinds = {entry["path"]: entry["kind"] for entry in told["files"]}  # type: ignore[attr-defined]
    assert kinds["Dockerfile"] == "both"
    assert "Dockerfile" in after
    assert kinds["README.md"] == kinds[".pre-commit-config.yaml"] == "kept"
    assert kinds["pyproject.toml"] == "left out", "they have none, and get none"
    image = after["image.Dockerfile"].decode()
    assert "COPY --chmod=755 nets/ nets/\nCOPY --chmod=755 train.py train.py\n" in image
    assert "ENV PYTHONPATH=/app/src:/app" in image
    assert any(name.startswith("wheels/") and name.endswith(".whl") for name in after), "*.whl is in their .gitignore"
    settings = after["pytest.ini"].decode()
    assert "testpaths = tests checks\n" in settings
    assert "--strict-markers" not in settings, "their marks are not declared"
    assert "scripts/old.sh" in after["scripts/lib.sh"].decode(), "lint would check it"
    assert after["requirements.in"].decode().count("numpy") == 1
    adopted = yaml.safe_load(after[".copier-answers.yml"])["adopted"]
    assert adopted["code"] == ["nets/", "train.py"]
    assert {"Dockerfile", "README.md", "scripts/old.sh"} <= set(adopted["kept"])
    git(folder, "switch", "--quiet", "adopt-template")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([RUFF, *command, "."], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    git(folder, "switch", "--quiet", "main")


def _updates(folder: Path, family: Family) -> None:
    program = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "safe_update.py"), "--repository", str(folder)]
    again = subprocess.run([*program, "--to", family.work_tree], capture_output=True, text=True)
    assert (again.returncode, git(folder, "status", "--porcelain")) == (0, ""), again.stdout + again.stderr
    later = subprocess.run([*program, "--to", family.next, "--no-lock"], capture_output=True, text=True)
    assert later.returncode == 0, later.stdout + later.stderr
    assert not git(folder, "ls-files", "-u")
    assert (folder / "Dockerfile").read_text() == "FROM debian\n"
    assert (folder / "scripts" / "added").is_file()


@pytest.mark.parametrize(
    ("files_there", "hidden"),
    [
        ({"pyproject.toml": "[tool.ruff]\n[tool.pytest.ini_options]\n"}, {"ruff.toml", "pytest.ini"}),
        ({"setup.cfg": "[tool:pytest]\n"}, {"pytest.ini"}),
        ({".ruff.toml": ""}, {"ruff.toml"}),
        ({"tox.ini": "[tox]\n"}, set()),
        ({"README.rst": "A\n", "LICENSE.txt": "MIT\n"}, {"README.md", "LICENSE"}),
        ({"mkdocs.yml": "", "docs/index.md": ""}, {"mkdocs.yml", "docs/index.md"}),
        ({".vscode/settings.json": "{}"}, {".vscode/settings.json"}),
    ],
)
def test_settings_of_theirs_stay_in_force(files_there: dict[str, str], hidden: set[str], old: Make) -> None:
    tree = read_tree(old({"a.py": CODE, **files_there}))
    rendered = [
        "ruff.toml",
        "pytest.ini",
        "README.md",
        "LICENSE",
        "mkdocs.yml",
        "docs/index.md",
        ".vscode/settings.json",
    ]
    assert set(placing.kept_paths(tree, rendered)) == {"pyproject.toml", *hidden}


@pytest.mark.slow
def test_the_pipeline_of_an_adopted_repository_passes(old: Make, template: Path) -> None:
    """Its packages are locked, and lint and tests take its code with the template's."""
    code = {"nets/__init__.py": "import humanize\n\nONE = humanize.intcomma(1000)\n", "requirements.txt": "humanize\n"}
    test = {"tests/test_nets.py": 'from nets import ONE\n\n\ndef test_one():\n    assert ONE == "1,000"\n'}
    folder = old(code | test)
    assert adopt.main([str(folder), "--template", str(template), "--version", "HEAD", *ANSWERS]) == 0
    git(folder, "switch", "--quiet", "adopt-template")
    for script in ("setup", "lint", "test"):
        assert "passed" in run(folder, f"scripts/{script}") or script != "test"
