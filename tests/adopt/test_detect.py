"""Answers and packages are found for repositories of every kind; what is not read is in the to-do list."""

from pathlib import Path

import pytest
from adoption.detect import Answer, detect, left_to_do
from adoption.packages import Packaging, read_packaging
from adoption.tree import Layout, layout_of, read_tree

from tests.adopt.conftest import Make

SETUP = "from setuptools import *\nsetup(name='Vit-Pytorch', install_requires=['torch'], packages=find_packages())\n"
MAIN = "import torch\nif __name__ == '__main__': pass\n"
APP = "from fastapi import FastAPI\nimport torch\napp = FastAPI()\n"
PROJECT = "[project]\nname = 'x'\n"
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
KINDS: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "flat library": (
        {"setup.py": SETUP, "vit_pytorch/__init__.py": "import torch\n", "tests/test_a.py": "import x\n"},
        {"project_type": "library", "project_name": "vit-pytorch", "framework": "torch",
         "package_name": "vit_pytorch_gpu", "code": ["vit_pytorch/"]},
    ),
    "library in src": (
        {"pyproject.toml": PROJECT, "src/x/__init__.py": "", "src/x/a.py": "import numpy\n"},
        {"project_type": "library", "framework": "plain", "package": "x", "code": []},
    ),
    "src is the package": (
        {"setup.py": "setup(name='src')\n", "src/__init__.py": "", "src/train.py": MAIN, "configs/a.yaml": "a: 1\n"},
        {"project_name": "old-code", "code": ["src/", "configs/"]},
    ),
    "a library that can do with any framework": (
        {"pyproject.toml": PROJECT, "x/__init__.py": "", "x/a.py": "", "x/b.py": "", "x/c.py": "import torch\n"},
        {"project_type": "library", "framework": "plain"},
    ),
    "scripts only": (
        {"train.py": MAIN, "model.py": "import torch\n", "requirements.txt": "torch==1.9\n"},
        {"project_type": "batch", "framework": "torch", "code": ["model.py", "train.py"],
         "package_name": "old_code_job", "kubernetes": False, "run": ["torch==1.9"]},
    ),
    "scripts that nothing says anything about": (
        {"train.py": "import torch\nimport numpy\nimport yaml\nimport strange_thing\n"},
        {"project_type": "batch", "framework": "torch", "run": ["numpy", "torch", "PyYAML"],
         "to_do": "the code imports strange_thing: add"},
    ),
    "service": (
        {"app/main.py": APP, "app/__init__.py": "", "requirements.txt": "fastapi\ntorch\n", "k8s/a.yaml": "a: 1\n"},
        {"project_type": "service", "framework": "torch", "kubernetes": True},
    ),
    "a web framework in an example alone": (
        {"setup.py": SETUP, "vit_pytorch/__init__.py": "import torch\n", "examples/app.py": APP},
        {"project_type": "library"},
    ),
    "TensorFlow": (
        {"setup.py": "setup(name='k', install_requires=['tensorflow-gpu==2.4'])\n", ".github/workflows/a.yml": "a: 1"},
        {"framework": "tensorflow", "ci": ["github"]},
    ),
    "JAX": ({"requirements.txt": "jax[cuda12]\nflax\n", "run.py": "import jax\n"}, {"framework": "jax"}),
    "conda": (
        {"environment.yml": "dependencies: [python=3.8, pytorch=1.9.1]\n", "train.py": MAIN},
        {"project_type": "batch", "framework": "torch", "to_do": "packages of conda are not read"},
    ),
    "several packages": (
        {"train.py": "import data, nets\n", "data/__init__.py": "", "nets/a.py": "import torch\n"},
        {"code": ["data/", "nets/", "train.py"]},
    ),
    "extensions": (
        {"setup.py": "setup(name='x', ext_modules=x)\n", "x/__init__.py": ""},
        {"to_do": "compiles extensions"},
    ),
    "pyproject": (
        {"pyproject.toml": PROJECT + "dependencies=['numpy>=1']\n[dependency-groups]\ndev=['pytest-cov', 'black']\n"},
        {"run": ["numpy>=1"], "dev": ["pytest-cov"]},
    ),
    "Poetry": (
        {"pyproject.toml": POETRY},
        {"run": ["numpy<2.2,>=2.1"], "dev": ["pytest"], "to_do": "`own` comes from an address"},
    ),
    "Pipenv": (
        {"Pipfile": "[packages]\nrequests='*'\n[dev-packages]\npytest='*'\n"}, {"run": ["requests"], "dev": ["pytest"]}
    ),
    "setup.cfg": (
        {"setup.cfg": "[options]\ninstall_requires =\n  numpy\n"}, {"to_do": "packages of setup.cfg are not read"}
    ),
    "setup.py that names a list": (
        {"setup.py": "need = ['numpy']\nsetup(name='x', install_requires=need)\n"}, {"run": ["numpy"]}
    ),
    "setup.py that computes": (
        {"setup.py": "setup(name='x', install_requires=list(made()))\n"},
        {"run": [], "to_do": "setup.py computes install_requires"},
    ),
    "setup.py that reads a file": (
        {"setup.py": "setup(install_requires=open('requirements.txt').read())\n", "requirements.txt": "numpy\n"},
        {"run": ["numpy"]},
    ),
    "requirements": (
        {"requirements.txt": "numpy==1.0 \\\n  --hash=sha256:0\n-e .\n# x\ntqdm  # y\n",
         "requirements-dev.txt": "pytest-cov\nblack\n"},
        {"run": ["numpy==1.0", "tqdm"], "dev": ["pytest-cov"]},
    ),
    "an address": (
        {"requirements.txt": "own @ https://h/own.whl\n"}, {"run": [], "to_do": "own @ https://h/own.whl` comes from"}
    ),
    "an index": (
        {"requirements.txt": "--extra-index-url https://h/\nx\n"}, {"run": ["x"], "to_do": "--extra-index-url https://h/"}
    ),
    "nonsense": ({"requirements.txt": "what is this\n"}, {"run": [], "to_do": "`what is this` was not read"}),
}  # fmt: skip


def found_in(folder: Path, **given: str) -> tuple[dict[str, Answer], Layout, Packaging, list[str]]:
    """Return the answers, the layout, the packages and the to-do list of a repository."""
    tree = read_tree(folder)
    packaging = read_packaging(tree)
    layout = layout_of(tree, packaging.name)
    return detect(tree, packaging, layout, folder.name, given), layout, packaging, left_to_do(tree, packaging)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_repository(name: str, old: Make) -> None:
    files, expected = KINDS[name]
    answers, layout, packaging, to_do = found_in(old({"a.txt": "", **files}))
    seen: dict[str, object] = {key: answer.value for key, answer in answers.items()}
    seen |= {"code": layout.code, "package": layout.package}
    seen |= {kind: [str(one.requirement) for one in getattr(packaging, kind)] for kind in ("run", "dev")}
    assert bool(to_do) is ("to_do" in expected), f"{name}: {to_do}"
    assert str(expected.get("to_do", "")) in " ".join(to_do), name
    wrong = {key: (seen[key], value) for key, value in expected.items() if key != "to_do" and seen[key] != value}
    assert not wrong, f"{name}: found and expected differ: {wrong}"


def test_every_answer_has_a_reason_and_can_be_given_instead(old: Make) -> None:
    folder = old(KINDS["service"][0])
    assert all(answer.reason for answer in found_in(folder)[0].values())
    answers = found_in(folder, project_type="library", framework="plain")[0]
    assert (answers["project_type"].value, answers["framework"].value) == ("library", "plain")
    assert str(answers["package_name"].value).endswith("_gpu")


@pytest.mark.parametrize(
    "taken", ["vit_pytorch_gpu/__init__.py", "vit_pytorch_gpu.py", "src/vit_pytorch_gpu/__init__.py"]
)
def test_the_new_package_shadows_nothing(taken: str, old: Make) -> None:
    answers = found_in(old({**KINDS["flat library"][0], taken: ""}))[0]
    assert answers["package_name"].value != "vit_pytorch_gpu"
