"""The packages that a repository requires, whatever tool wrote them down; what is not read is in the to-do list."""

from __future__ import annotations

from pathlib import Path

import pytest
from adoption import lock
from adoption.packages import Packaging, read_packaging
from adoption.tree import read_tree

from tests.adopt.conftest import Make

POETRY = """
[tool.poetry]
name = "x"
version = "1.0"
[tool.poetry.dependencies]
python = "^3.10"
numpy = "~2.1"
own = {git = "https://example.com/own.git"}
[tool.poetry.group.dev.dependencies]
pytest = "*"
black = "*"
"""
FILES: dict[str, tuple[dict[str, str], list[str], list[str], str]] = {  # files, to run, to develop, in the to-do list
    "pyproject": (
        {"pyproject.toml": "[project]\nname='x'\ndependencies=['numpy>=1']\n[dependency-groups]\ndev=['pytest-cov']\n"},
        ["numpy>=1"], ["pytest-cov"], "",
    ),
    "Poetry": ({"pyproject.toml": POETRY}, ["numpy<2.2,>=2.1"], ["pytest"], "`own` comes from an address"),
    "Pipenv": ({"Pipfile": "[packages]\nrequests='*'\n[dev-packages]\npytest='*'\n"}, ["requests"], ["pytest"], ""),
    "setup.cfg": (
        {"setup.cfg": "[metadata]\nname=x\n[options]\ninstall_requires =\n  numpy\n  tqdm>4\n"},
        ["numpy", "tqdm>4"], [], "",
    ),
    "setup.py": ({"setup.py": "need = ['numpy']\nsetup(name='x', install_requires=need)\n"}, ["numpy"], [], ""),
    "setup.py that computes": (
        {"setup.py": "setup(name='x', install_requires=list(made()))\n"}, [], [], "setup.py computes install_requires"
    ),
    "setup.py that reads a file": (
        {"setup.py": "setup(install_requires=open('requirements.txt').read())\n", "requirements.txt": "numpy\n"},
        ["numpy"], [], "",
    ),
    "requirements": (
        {"requirements.txt": "numpy==1.0 \\\n  --hash=sha256:0\n-r more.txt\n-e .\n# x\n", "more.txt": "tqdm  # y\n",
         "requirements-dev.txt": "pytest-cov\nblack\n"},
        ["numpy==1.0", "tqdm"], ["pytest-cov"], "",
    ),
    "an address": ({"requirements.txt": "own @ https://h/own.whl\n"}, [], [], "own @ https://h/own.whl` comes from an"),
    "an index": ({"requirements.txt": "--extra-index-url https://h/\nx\n"}, ["x"], [], "--extra-index-url https://h/"),
    "nonsense": ({"requirements.txt": "what is this\n"}, [], [], "`what is this` was not read"),
    "conda": ({"environment.yml": "dependencies: [numpy]\n"}, [], [], "environment.yml: packages of conda"),
    "imports": ({"a.py": "import yaml, strange, os\n"}, ["PyYAML"], [], "no file requires strange"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_packages_are_read_as_they_are(kind: str, old: Make) -> None:
    files, run, dev, to_do = FILES[kind]
    found = read_packaging(read_tree(old({"a.py": "", **files})))
    assert [str(asked.requirement) for asked in found.run] == run
    assert [str(asked.requirement) for asked in found.dev] == dev
    assert to_do in " ".join(found.to_do)
    assert bool(found.to_do) is bool(to_do)


def room_of(folder: Path) -> Path:
    """Make a folder to lock in, of an image with torch 2.9."""
    (folder / "constraints.txt").write_text("torch==2.9.0\n")
    (folder / "requirements.lock").write_text("start\n")
    template = "[project]\ndependencies = ['base']\n[dependency-groups]\ndev = ['pytest']\n"
    (folder / "pyproject.toml.template").write_text(template)
    return folder


def asking(*texts: str) -> Packaging:
    """Return packages that a requirements.txt requires."""
    packaging = Packaging()
    packaging.add(texts, "requirements.txt")
    return packaging


@pytest.mark.parametrize(
    ("reasons", "inputs", "note", "to_do"),
    [
        ([""], "torch\nold==1.0\nbase\n", "requirements.txt requires torch==1.9; the image has torch 2.9.0", ""),
        (["Because x."], "torch\nold>=1.0\nbase\n", "so newer ones are locked: Because x.", ""),
        (["Because x.", "Because y."], "base\n# torch\n# old>=1.0\n", "", "do not fit the image torch-cu13"),
    ],
)
def test_what_does_not_fit_is_loosened_then_left_to_do(
    reasons: list[str], inputs: str, note: str, to_do: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter([*reasons, ""])

    def run_lock(room: Path) -> str:
        (room / "requirements.lock").write_text("half\n")
        return next(said)

    monkeypatch.setattr(lock, "run_lock", run_lock)
    locked = lock.resolve(room_of(tmp_path), "requirements", asking("torch==1.9", "old==1.0"), False, "torch-cu13")
    assert (tmp_path / "requirements.in").read_text().partition("\n")[2] == inputs
    assert note in " ".join(locked.notes)
    assert to_do in " ".join(locked.to_do)
    assert bool(locked.to_do) is bool(to_do)
    assert (tmp_path / "requirements.lock").read_text() == ("start\n" if to_do else "half\n")


def test_the_reason_is_one_line_of_uv() -> None:
    message = (
        "  × No solution found:\n  ╰─▶ Because a==1 depends on b<2 and you require b>=2,\n"
        "      we conclude that they are unsatisfiable.\n\n hint: x"
    )
    reason = "Because a==1 depends on b<2 and you require b>=2, we conclude that they are unsatisfiable."
    assert lock.reason_of(message) == reason
