"""No package is lost in silence: it is asked for, or a line says that it is not and where it would go."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from adoption.locks import reason_of, wanted_of
from adoption.packaged import Packaging
from adoption.packaging_found import read_packaging
from adoption.requirements import Asked, fitted
from packaging.requirements import Requirement

from tests.adopt.conftest import Make
from tests.adopt.test_detect import findings
from tests.updates.tiny import write_files

PROJECT = "[project]\nname = 'x'\ndependencies = ['a']\n"
ASKED: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
    "constraints hold what is asked for": (
        {"requirements.txt": "-c pins/all.txt\ntqdm\n", "pins/all.txt": "tqdm==4.60.0\n"},
        ["tqdm==4.60.0"],
        [],
    ),
    "constraints that name others": (
        {"requirements.txt": "-c a.txt\ntqdm\n", "a.txt": "-c b.txt\n", "b.txt": "tqdm<5\n"},
        ["tqdm<5"],
        [],
    ),
    "constraints for another system": (
        {"requirements.txt": "-c a.txt\nb\n", "a.txt": "b<2; sys_platform == 'win32'\n"},
        ["b"],
        [],
    ),
    "pip's part of conda names a file": (
        {"environment.yml": "dependencies: [python=3.9, {pip: ['-r req.txt']}]\n", "req.txt": "einops\n"},
        ["einops"],
        [],
    ),
    "pip's part of conda has constraints": (
        {"environment.yml": "dependencies: [{pip: ['-c c.txt', a]}]\n", "c.txt": "a<2\n"},
        ["a<2"],
        [],
    ),
    "a group includes a group": (
        {
            "pyproject.toml": PROJECT + "[dependency-groups]\ndev=[{include-group='Unit_Tests'}]\n"
            "unit-tests=['pytest-mock', {include-group='dev'}]\n"
        },
        ["a"],
        ["pytest-mock"],
    ),
    "groups of PDM": (
        {"pyproject.toml": PROJECT + "[tool.pdm.dev-dependencies]\ntest=['hypothesis']\n"},
        ["a"],
        ["hypothesis"],
    ),
    "development, as uv wrote it first": (
        {"pyproject.toml": PROJECT + "[tool.uv]\ndev-dependencies=['hypothesis']\n"},
        ["a"],
        ["hypothesis"],
    ),
    "environments of Hatch": (
        {"pyproject.toml": PROJECT + "[tool.hatch.envs.hatch-test]\nextra-dependencies=['hypothesis']\n"},
        ["a"],
        ["hypothesis"],
    ),
    "Flit before there was [project]": (
        {
            "pyproject.toml": "[tool.flit.metadata]\nmodule='x'\nrequires=['a>=1']\n"
            "[tool.flit.metadata.requires-extra]\ntest=['b']\n"
        },
        ["a>=1"],
        ["b"],
    ),
    "a conda environment that takes the requirements in": (
        {"requirements.txt": "a\n", "environment.yml": "dependencies: [b=1.2, {pip: ['-r requirements.txt', c]}]\n"},
        ["a", "b==1.2.*", "c"],
        [],
    ),
    "a conda environment in a folder": ({"envs/environment.yml": "dependencies: [{pip: [c]}]\n"}, ["c"], []),
    "pixi": (
        {"pixi.toml": "[dependencies]\npython='3.11.*'\nb='>=1'\n[pypi-dependencies]\nc='*'\n"},
        ["b>=1", "c"],
        [],
    ),
    "Cog": ({"cog.yaml": "build: {python_version: '3.10', python_packages: ['a==1']}\n"}, ["a==1"], []),
    "BentoML": (
        {"bentofile.yaml": "python: {packages: [a], requirements_txt: req.txt}\n", "req.txt": "b\n"},
        ["a", "b"],
        [],
    ),
    "UTF-16, as PowerShell writes it": ({"requirements.txt": "torch==1.9\nb\n"}, ["torch==1.9", "b"], []),
    "two that belong together": (
        {"requirements/base.txt": "a\n", "requirements/prod.txt": "fastapi\n"},
        ["a", "fastapi"],
        [],
    ),
    "those of a GPU": ({"requirements.txt": "a\n", "requirements-gpu.txt": "torch\n"}, ["a", "torch"], []),
    "an extra for a GPU": (
        {"pyproject.toml": PROJECT + "[project.optional-dependencies]\ngpu=['onnxruntime-gpu']\n"},
        ["a", "onnxruntime-gpu"],
        [],
    ),
    "the one in a folder": ({"backend/requirements.txt": "a\n", "docs/requirements.txt": "b\n"}, ["a"], []),
    "a setup.py with a part that is computed": (
        {"setup.py": "R = ['a']\nsetup(name='x', install_requires=R + rd('reqs/core.txt'))\n", "reqs/core.txt": "b\n"},
        ["a", "b"],
        [],
    ),
    "a setup.py with a list that is computed in part": (
        {"setup.py": "M = ['b']\nsetup(name='x', install_requires=['a', f'torch=={V}', *M])\n"},
        ["a", "b"],
        [],
    ),
    "a setup.py whose list grows": (
        {"setup.py": "R = ['a']\nR += ['b']\nR.append('c')\nR.extend(['d'])\nsetup(name='x', install_requires=R)\n"},
        ["a", "b", "c", "d"],
        [],
    ),
    "a setup.py with a mark at its start": (
        {"setup.py": "\ufeffsetup(name='x', install_requires=['a'])\n"},
        ["a"],
        [],
    ),
    "a setup.cfg that names a file": (
        {"setup.cfg": "[metadata]\nname = x\n[options]\ninstall_requires = file: need.txt\n", "need.txt": "a\n"},
        ["a"],
        [],
    ),
}


@pytest.mark.parametrize("kind", ASKED)
def test_what_is_asked_for_by_a_detour_is_asked_for(kind: str, tmp_path: Path) -> None:
    files, run, dev = ASKED[kind]
    write_files(tmp_path, files)
    if "UTF-16" in kind:
        path = tmp_path / "requirements.txt"
        path.write_bytes(codecs.BOM_UTF16_LE + path.read_text().encode("utf-16-le"))
    found = read_packaging(tmp_path)
    assert sorted(str(asked.requirement) for asked in found.packages.run) == sorted(run), f"{kind}: {found}"
    assert sorted(asked.name for asked in found.packages.dev) == sorted(dev), f"{kind}: {found}"


TOLD: dict[str, tuple[dict[str, str], str]] = {
    "another requirements file": (
        {"requirements.txt": "a\n", "requirements-cpu.txt": "a\nb\n"},
        "not read: requirements-cpu.txt (b)",
    ),
    "requirements files in folders": (
        {"requirements.txt": "a\n", "one/requirements.txt": "b\n", "two/requirements.txt": "a\n"},
        "not read: one/requirements.txt (b);",
    ),
    "extras": (
        {"pyproject.toml": PROJECT + "[project.optional-dependencies]\nvision=['pillow', 'x[all]']\ndocs=['mkdocs']\n"},
        "extras and groups are not locked: vision (pillow);",
    ),
    "extras of Poetry": (
        {
            "pyproject.toml": "[tool.poetry]\nname='x'\n[tool.poetry.dependencies]\nb={version='*', optional=true}\n"
            "[tool.poetry.extras]\nmore=['b']\n"
        },
        "extras and groups are not locked: more (b);",
    ),
    "extras of setup.py": (
        {"setup.py": "setup(name='x', install_requires=[], extras_require={'vis': ['pillow>=9'], 'lint': ['c']})\n"},
        "extras and groups are not locked: vis (pillow);",
    ),
    "other groups": (
        {"pyproject.toml": PROJECT + "[dependency-groups]\ntrain=['lightning']\nlint=['ruff']\n"},
        "extras and groups are not locked: train (lightning);",
    ),
    "other groups of Poetry": (
        {"pyproject.toml": "[tool.poetry]\nname='x'\n[tool.poetry.group.train.dependencies]\nlightning='^2'\n"},
        "extras and groups are not locked: train (lightning);",
    ),
    "the environment of Hatch": (
        {"pyproject.toml": PROJECT + "[tool.hatch.envs.default]\ndependencies=['torch', 'jax']\n"},
        "extras and groups are not locked: default (jax, torch);",
    ),
    "an index of a Pipfile": (
        {"Pipfile": "[[source]]\nname='corp'\nurl='https://h/simple'\n[packages]\nb={index='corp', version='*'}\n"},
        "b: Pipfile: Pipfile takes it from the index corp, and the common index may have another of that name",
    ),
    "the source of every package": (
        {"Pipfile": "[[source]]\nname='corp'\nurl='https://h/simple'\n[packages]\nb='*'\n"},
        "https://h/simple: Pipfile: an index is said with PIP_INDEX_URL",
    ),
    "an index of uv": (
        {"pyproject.toml": PROJECT + "[[tool.uv.index]]\nname='corp'\nurl='https://h/simple'\n"},
        "https://h/simple: pyproject.toml: an index is said with PIP_INDEX_URL",
    ),
    "an index of PyTorch": (
        {"requirements.txt": "--extra-index-url https://x.pytorch.org/whl/cu121\na\n"},
        "requirements.txt names an index of PyTorch or NVIDIA",
    ),
    "a conda environment beside requirements": (
        {"requirements.txt": "a\n", "environment.yml": "dependencies: [python=3.12, a, {pip: [b]}]\n"},
        "of environment.yml is not read: b;",
    ),
    "what an extra of setup.py reads": (
        {
            "setup.py": "def r(p): return open(p).read().split()\n"
            "setup(name='x', install_requires=r('requirements.txt'), "
            "extras_require={'more': r('requirements-extras.txt')})\n",
            "requirements.txt": "a\n",
            "requirements-extras.txt": "b\n",
        },
        "not read: requirements-extras.txt (b);",
    ),
    "constraints for nothing": (
        {"requirements.txt": "-c c.txt\na\n", "c.txt": "a<3\nnumpy<2\n"},
        "c.txt holds packages that nothing asks for (numpy)",
    ),
    "computed, and no file is named": ({"setup.py": "setup(name='x', install_requires=rd())\n"}, "it is computed"),
    "computed before": (
        {"setup.py": "kw = dict(install_requires=rd())\nsetup(name='x', **kw)\n"},
        "it is computed",
    ),
    "a list that grows behind a condition": (
        {"setup.py": "R = ['a']\nif P:\n    R.append('b')\nsetup(name='x', install_requires=R)\n"},
        "it is computed",
    ),
    "all of it computed": ({"setup.py": "setup(**everything())\n"}, "it is computed"),
    "a file that is not there": ({"requirements.txt": "-r https://h/r.txt\n-c none.txt\na\n"}, "no such file is here"),
}


def told(found: Packaging) -> str:
    """Return all that is said of what is not asked for."""
    return "\n".join([*found.notes, *(f"{text}: {file}: {why}" for text, file, why in found.packages.left)])


@pytest.mark.parametrize("kind", TOLD)
def test_what_is_not_asked_for_is_named(kind: str, tmp_path: Path) -> None:
    files, said = TOLD[kind]
    write_files(tmp_path, files)
    assert said in told(read_packaging(tmp_path)), kind


@pytest.mark.parametrize("files", [{"requirements.txt": "a\n", "requirements.in": "a\n"}, {"requirements.txt": "a\n"}])
def test_where_all_is_asked_for_nothing_is_said(files: dict[str, str], tmp_path: Path) -> None:
    write_files(tmp_path, files)
    assert told(read_packaging(tmp_path)) == "", files


PYTHONS = {
    "environment.yml": ("dependencies: [python=3.8.12=h12debd9_0]\n", "==3.8.12.*"),
    "environment.yaml": ("dependencies: ['conda-forge::python 3.9']\n", "==3.9.*"),
    ".python-version": ("3.10.4\n", "==3.10.*"),
    "runtime.txt": ("python-3.9.7\n", "==3.9.*"),
    ".tool-versions": ("nodejs 20\npython 3.11.2\n", "==3.11.*"),
    "Dockerfile": ("FROM docker.io/library/python:3.12-slim\n", "==3.12.*"),
}


@pytest.mark.parametrize("name", PYTHONS)
def test_its_python_is_read_wherever_it_is_said(name: str, tmp_path: Path) -> None:
    write_files(tmp_path, {name: PYTHONS[name][0]})
    found = read_packaging(tmp_path)
    assert (found.python, found.python_source) == (PYTHONS[name][1], name)


@pytest.mark.parametrize("name", ["tensorflow-gpu==2.4", "tensorflow-cpu", "tf-nightly"])
def test_another_build_of_the_framework_gives_way_to_the_image(name: str) -> None:
    line = fitted(Asked(Requirement(name), "setup.py"), {"tensorflow": "2.20.0"}, "tensorflow-cu12")
    assert (line.text, "tensorflow 2.20.0" in line.note) == ("tensorflow", True)
    assert fitted(Asked(Requirement(name), "setup.py"), {}, "plain-cu13").text == name


def test_a_reason_is_not_cut_at_the_dot_of_a_version() -> None:
    said = "  × Failed to build `old==2.4.1`, which has no wheel.\n  ╰─▶ more"
    assert reason_of(said) == "Failed to build `old==2.4.1`, which has no wheel."


def test_an_extra_for_a_gpu_is_locked_beside_what_pyproject_says_itself(old: Make, tmp_path: Path) -> None:
    text = PROJECT + "[project.optional-dependencies]\ngpu=['onnxruntime-gpu']\n[dependency-groups]\ndev=[]\n"
    (tmp_path / "constraints.txt").write_text("")
    wanted, asks = wanted_of(
        tmp_path, PROJECT + "[dependency-groups]\ndev=[]\n", findings(old({"pyproject.toml": text})), "image"
    )
    assert asks
    assert [line.text for line in wanted.run if line.source != "the template"] == ["onnxruntime-gpu"]
