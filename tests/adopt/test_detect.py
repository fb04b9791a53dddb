"""Each answer is found for repositories of every kind, with its reason, and can be given instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from adoption.detect import Answer, detect, left_to_do
from adoption.packages import Packaging, read_packaging
from adoption.tree import Layout, read_tree

from tests.adopt.conftest import Make

SETUP = "from setuptools import *\nsetup(name='Vit-Pytorch', install_requires=['torch'], packages=find_packages())\n"
MAIN = "import torch\nif __name__ == '__main__': pass\n"
APP = "from fastapi import FastAPI\nimport torch\napp = FastAPI()\n"
PROJECT = "[project]\nname = 'x'\n"
KINDS: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "flat library": (
        {"setup.py": SETUP, "vit_pytorch/__init__.py": "import torch\n", "tests/test_a.py": "import x\n"},
        {"project_type": "library", "project_name": "vit-pytorch", "framework": "torch",
         "package_name": "vit_pytorch_gpu", "layout": "flat", "code": ["vit_pytorch/"]},
    ),
    "library in src": (
        {"pyproject.toml": PROJECT, "src/x/__init__.py": "", "src/x/a.py": "import numpy\n"},
        {"project_type": "library", "framework": "plain", "layout": "src", "package": "x", "code": []},
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
        {"project_type": "batch", "framework": "torch", "layout": "scripts", "code": ["model.py", "train.py"],
         "package_name": "old_code_job", "kubernetes": False},
    ),
    "scripts that nothing says anything about": (
        {"train.py": "import torch\nimport numpy\nimport yaml\nimport strange_thing\n"},
        {"project_type": "batch", "framework": "torch", "asked": ["numpy", "pyyaml", "torch"]},
    ),
    "service": (
        {"app/main.py": APP, "app/__init__.py": "", "requirements.txt": "fastapi\ntorch\n",
         "Dockerfile": "FROM nvidia/cuda:11.8.0-base\nCMD uvicorn app.main:app\n"},
        {"project_type": "service", "framework": "torch", "gpu_driver": "525",
         "reason": "Dockerfile names CUDA 11"},
    ),
    "service with objects for Kubernetes": (
        {"app.py": APP, "requirements.txt": "fastapi\ntorch\n", "k8s/a.yaml": "kind: Deployment\n"},
        {"project_type": "service", "kubernetes": True},
    ),
    "a web framework in an example alone": (
        {"setup.py": SETUP, "vit_pytorch/__init__.py": "import torch\n", "examples/app.py": APP},
        {"project_type": "library"},
    ),
    "TensorFlow": (
        {"setup.py": "setup(name='k', install_requires=['tensorflow-gpu==2.4'])\n",
         "k/__init__.py": "import tensorflow\n"},
        {"framework": "tensorflow"},
    ),
    "JAX": ({"requirements.txt": "jax[cuda12]\nflax\n", "run.py": "import jax\n"}, {"framework": "jax"}),
    "conda": (
        {"environment.yml": "dependencies: [python=3.8, pytorch=1.9.1, cudatoolkit=11.1]\n", "train.py": MAIN},
        {"project_type": "batch", "framework": "torch", "gpu_driver": "525", "to_do": "packages of conda are not read"},
    ),
    "wheels for a CUDA": (
        {"requirements.txt": "--extra-index-url https://h/whl/cu130\ntorch\n", "a.py": "import torch\n"},
        {"gpu_driver": "580"},
    ),
    "several packages": (
        {"train.py": "import data, nets\n", "data/__init__.py": "", "nets/a.py": "import torch\n"},
        {"layout": "several", "code": ["data/", "nets/", "train.py"]},
    ),
    "a CI": ({"a.py": "", ".github/workflows/a.yml": "on: push\n"}, {"ci": ["github"]}),
    "no CI": ({"a.py": ""}, {"ci": ["jenkins"]}),
    "extensions": (
        {"setup.py": "setup(name='x', ext_modules=x)\n", "x/__init__.py": ""},
        {"to_do": "compiles extensions"},
    ),
}  # fmt: skip


def found_in(folder: Path, **given: str) -> tuple[dict[str, Answer], Layout, Packaging, list[str]]:
    """Return the answers, the layout, the packages and the to-do list of a repository."""
    tree = read_tree(folder)
    packaging = read_packaging(tree)
    return *detect(tree, packaging, folder.name, given), packaging, left_to_do(tree, packaging)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_repository(name: str, old: Make) -> None:
    files, expected = KINDS[name]
    answers, layout, packaging, to_do = found_in(old(files))
    seen: dict[str, object] = {key: answer.value for key, answer in answers.items()}
    seen |= {"layout": layout.kind, "code": layout.code, "package": layout.package}
    seen |= {"reason": answers["gpu_driver"].reason.split(",")[0], "asked": sorted(packaging.names())}
    if "to_do" in expected:
        assert any(str(expected["to_do"]) in text for text in to_do), f"{name}: {to_do}"
    wrong = {key: (seen[key], value) for key, value in expected.items() if key != "to_do" and seen[key] != value}
    assert not wrong, f"{name}: found and expected differ: {wrong}"


def test_every_answer_has_a_reason_and_can_be_given_instead(old: Make) -> None:
    folder = old(KINDS["service"][0])
    assert all(answer.reason for answer in found_in(folder)[0].values())
    answers = found_in(folder, project_type="library", framework="plain")[0]
    assert (answers["project_type"].value, answers["framework"].value) == ("library", "plain")
    assert str(answers["package_name"].value).endswith("_gpu")


def test_a_package_of_an_unknown_import_is_not_guessed(old: Make) -> None:
    _, _, packaging, to_do = found_in(old(KINDS["scripts that nothing says anything about"][0]))
    assert "strange-thing" not in packaging.names()
    assert any("strange_thing" in text for text in to_do)


@pytest.mark.parametrize(
    "taken", ["vit_pytorch_gpu/__init__.py", "vit_pytorch_gpu.py", "src/vit_pytorch_gpu/__init__.py"]
)
def test_the_new_package_shadows_nothing(taken: str, old: Make) -> None:
    answers = found_in(old({**KINDS["flat library"][0], taken: ""}))[0]
    assert answers["package_name"].value != "vit_pytorch_gpu"
