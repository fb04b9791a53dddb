"""What a repository asks for, in whatever words, becomes one list; what no lock can hold is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from adoption.packaging_found import read_packaging
from adoption.requirements import Asked, conda_requirement, fitted, from_caret, loosened, poetry_requirement
from adoption.setup_py import read_setup
from packaging.requirements import Requirement

from tests.updates.tiny import write_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("^1.2.3", "<2,>=1.2.3"), ("^0.4", "<0.5,>=0.4"), ("^0.0.3", "<0.0.4,>=0.0.3"), ("~2.1", "<2.2,>=2.1"),
        ("*", ""),
        ("1.4", "==1.4"), (">=2,<3", "<3,>=2"), ("~3", "<4,>=3"), ("^2", "<3,>=2"),
    ],
)  # fmt: skip
def test_versions_of_poetry_become_those_of_pip(text: str, expected: str) -> None:
    assert from_caret(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("^1", "x<2,>=1"),
        ({"version": "~1.1", "extras": ["a", "b"]}, "x[a,b]<1.2,>=1.1"),
        ({"git": "https://h/x"}, None),
    ],
)
def test_entries_of_poetry(value: object, expected: str | None) -> None:
    assert poetry_requirement("x", value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pytorch=1.12.1", "torch==1.12.1.*"), ("numpy=1.21=py38h_0", "numpy==1.21.*"),
        ("conda-forge::tqdm>=4", "tqdm>=4"),
        ("cudatoolkit=11.3", None), ("python=3.8", None), ("scipy==1.7.1", "scipy==1.7.1"), ("pandas", "pandas"),
        ("pytorch-cuda=11.8", None), ("opencv", "opencv-python"),
    ],
)  # fmt: skip
def test_entries_of_conda(text: str, expected: str | None) -> None:
    assert conda_requirement(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a==1.2.*", "a>=1.2"),
        ("a>=1,<2", "a>=1"),
        ("a==1.2+cu126", "a>=1.2"),
        ("a~=1.4; python_version < '3.12'", 'a>=1.4; python_version < "3.12"'),
    ],
)
def test_a_pin_is_widened_upward(text: str, expected: str) -> None:
    assert loosened(text) == expected


def test_what_the_image_fixes_gives_way_and_is_named_with_both_versions() -> None:
    line = fitted(Asked(Requirement("torch[x]==1.9"), "requirements.txt"), {"torch": "2.15.0"}, "torch-cu13")
    assert line.text == "torch[x]"
    assert line.note == "requirements.txt asks for torch[x]==1.9, the image torch-cu13 has torch 2.15.0"
    assert not fitted(Asked(Requirement("torch>=2"), "requirements.txt"), {"torch": "2.15.0"}, "torch-cu13").note


KINDS = {
    "setup.py": (
        {"setup.py": "from setuptools import setup\nsetup(name='x', install_requires=['a>=1', 'b'])\n"},
        ["a>=1", "b"],
    ),
    "setup.py with a sum": (
        {"setup.py": "BASE = ['a']\nsetuptools.setup(name='x', install_requires=BASE + ['b'])\n"},
        ["a", "b"],
    ),
    "setup.py with a dict": ({"setup.py": "kw = dict(install_requires=['a'])\nsetup(name='x', **kw)\n"}, ["a"]),
    "setup.py that reads a file": (
        {
            "setup.py": "setup(name='x', install_requires=open('requirements.txt').read())\n",
            "requirements.txt": "a\nb # why\n",
        },
        ["a", "b"],
    ),
    "setup.cfg": (
        {"setup.cfg": "[metadata]\nname = x\n[options]\ninstall_requires =\n    a>=1\n    b\n"},
        ["a>=1", "b"],
    ),
    "pyproject": ({"pyproject.toml": "[project]\nname = 'x'\ndependencies = ['a', 'b>=2']\n"}, ["a", "b>=2"]),
    "pyproject, the file of a backend": (
        {
            "pyproject.toml": "[project]\nname='x'\ndynamic=['dependencies']\n"
            "[tool.setuptools.dynamic.dependencies]\nfile=['in.txt']\n",
            "in.txt": "a\n",
        },
        ["a"],
    ),
    "poetry": (
        {"pyproject.toml": "[tool.poetry]\nname='x'\n[tool.poetry.dependencies]\npython='^3.8'\na='^1'\n"},
        ["a<2,>=1"],
    ),
    "requirements": (
        {"requirements.txt": "--extra-index-url u\na==1 \\\n  --hash=sha256:00\n-r more.txt\n", "more.txt": "b\n"},
        ["a==1", "b"],
    ),
    "conda": (
        {"environment.yml": "dependencies: [python=3.8, pytorch=1.9, {pip: ['a==2', '-e .']}]\n"},
        ["torch==1.9.*", "a==2"],
    ),
    "Pipfile": ({"Pipfile": "[packages]\na = '*'\nb = '>=1'\n"}, ["a", "b>=1"]),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_packaging_is_read(name: str, tmp_path: Path) -> None:
    files, expected = KINDS[name]
    write_files(tmp_path, files)
    found = read_packaging(tmp_path)
    assert sorted(str(asked.requirement) for asked in found.packages.run) == sorted(expected), f"{name}: {found.kinds}"


SOURCED = {
    "uv": "[project]\nname='x'\ndependencies=['a', 'b', 'torch', 'c']\n[tool.uv.sources]\na={path='./a'}\n"
    "c=[{index='acme', marker='sys_platform==\"linux\"'}]\ntorch={index='pytorch'}\n",
    "Poetry": "[tool.poetry]\nname='x'\n[tool.poetry.dependencies]\na={version='*', source='acme'}\nb='*'\n"
    "torch={version='*', source='pytorch'}\n[tool.poetry.group.test.dependencies]\nc={version='*', source='acme'}\n",
}


@pytest.mark.parametrize("name", SOURCED)
def test_what_comes_from_elsewhere_is_not_taken_by_its_name_from_the_common_index(name: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"pyproject.toml": SOURCED[name]})
    found = read_packaging(tmp_path)
    assert [asked.name for asked in found.packages.run] == (["b", "torch"]), f"{name}: {found.packages}"
    assert sorted(text for text, _, _ in found.packages.left) == ["a", "c"], f"{name}: {found.packages}"
    assert not found.static, f"{name}: uv would read the table of sources itself"


def test_a_setup_py_is_never_run(tmp_path: Path) -> None:
    text = f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit\nfrom setuptools import setup\nsetup(name='x')\n"
    assert read_setup(text, tmp_path).known["name"] == "x"
    assert not (tmp_path / "ran").exists()


def test_a_setup_py_of_another_time_says_nothing_and_stops_nothing(tmp_path: Path) -> None:
    assert read_setup("print 'python two'\n", tmp_path).known == {}


@pytest.mark.parametrize("line", ["git+https://host/x.git", "x @ https://host/x.whl", "-e git+ssh://host/x#egg=x"])
def test_what_has_no_hash_is_left_out_and_named(line: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"requirements.txt": f"{line}\na\n"})
    packages = read_packaging(tmp_path).packages
    assert [text for text, _, reason in packages.left if "hash" in reason] == [line]
    assert packages.names() == {"a"}


def test_tools_of_style_are_not_taken_over_and_those_of_tests_are(tmp_path: Path) -> None:
    extras = "[project.optional-dependencies]\ntest=['pytest-cov', 'black', 'x[all]']\ndocs=['sphinx']\n"
    text = f"[project]\nname='x'\n{extras}"
    write_files(tmp_path, {"pyproject.toml": text})
    assert [asked.name for asked in read_packaging(tmp_path).packages.dev] == ["pytest-cov"]


def test_what_the_image_brings_is_no_work_left_to_do(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"environment.yml": "dependencies: [python=3.8, cudatoolkit=11.3, pytorch-cuda=11.8, ffmpeg]\n"}
    )
    assert [text for text, _, _ in read_packaging(tmp_path).packages.left] == ["ffmpeg"]
