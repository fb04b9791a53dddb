"""Each answer is found for repositories of every kind, with its reason, and can be given instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from adoption.detect import Findings, detect
from adoption.imports import add_imported, add_tested
from adoption.packaging_found import read_packaging
from adoption.tree import read_tree

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
         "cuda": "Dockerfile names an image of CUDA 11.8"},
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
        {"project_type": "batch", "framework": "torch", "gpu_driver": "525", "asked": ["torch"],
         "warning": "asks for Python ==3.8"},
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
    "another template": ({"a.py": "", ".cruft.json": "{}"}, {"warning": "cruft brings updates of another template"}),
    "no CI": ({"a.py": ""}, {"ci": ["jenkins"]}),
    "extensions": (
        {"setup.py": "setup(name='x', ext_modules=cythonize([Extension('x.a', ['a.pyx'])]))\n", "x/__init__.py": ""},
        {"warning": "compiles extensions"},
    ),
}  # fmt: skip


def findings(folder: Path, **given: str) -> Findings:
    """Return what is found in a repository."""
    tree, packaging = read_tree(folder), read_packaging(folder)
    add_imported(packaging, tree)
    add_tested(packaging, tree)
    return detect(tree, packaging, folder.name, given)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_repository(name: str, old: Make) -> None:
    files, expected = KINDS[name]
    found = findings(old(files))
    seen: dict[str, object] = {key: answer.value for key, answer in found.answers.items()}
    seen |= {"layout": found.layout.kind, "code": found.layout.code, "package": found.layout.package}
    seen |= {"cuda": found.facts["cuda"], "asked": sorted(found.packaging.packages.names())}
    if "warning" in expected:
        assert any(str(expected["warning"]) in text for text in found.warnings), f"{name}: {found.warnings}"
    wrong = {key: (seen[key], value) for key, value in expected.items() if key != "warning" and seen[key] != value}
    assert not wrong, f"{name}: found and expected differ: {wrong}"


def test_every_answer_has_a_reason_and_can_be_given_instead(old: Make) -> None:
    folder = old(KINDS["service"][0])
    assert all(answer.reason for answer in findings(folder).answers.values())
    found = findings(folder, project_type="library", framework="plain")
    assert (found.answers["project_type"].value, found.answers["framework"].value) == ("library", "plain")
    assert found.answers["package_name"].value.endswith("_gpu")


def test_a_name_that_nobody_knows_is_not_guessed(old: Make) -> None:
    found = findings(old(KINDS["scripts that nothing says anything about"][0]))
    assert [text for text, _, _ in found.packaging.packages.left] == ["strange_thing"]


def test_a_name_of_its_own_or_of_its_own_files_is_not_left(old: Make) -> None:
    code = "import inner, gymnasium_x, urllib2\nfrom deep import a\n"
    files = {"one/train.py": code, "one/inner/deep/a.py": "", "one/requirements.txt": "gymnasium-x\n"}
    found = findings(old({**files, "two/requirements.txt": "other\n", "two/a.py": ""})).packaging.packages
    assert ([str(asked.requirement) for asked in found.run], found.left) == (["gymnasium-x"], [])


@pytest.mark.parametrize(
    "taken", ["vit_pytorch_gpu/__init__.py", "vit_pytorch_gpu.py", "src/vit_pytorch_gpu/__init__.py"]
)
def test_the_package_between_shadows_nothing(taken: str, old: Make) -> None:
    found = findings(old({**KINDS["flat library"][0], taken: ""}))
    assert found.answers["package_name"].value != "vit_pytorch_gpu"


def test_what_tests_import_is_asked_for(old: Make) -> None:
    found = findings(old({"setup.py": SETUP, "tests/test_a.py": "import transformers\nimport torch\n"}))
    assert "transformers" in {asked.name for asked in found.packaging.packages.dev}
