"""Service or job, and which framework: by what speaks for each, not by one name."""

from __future__ import annotations

import pytest
from adoption.repository import AdoptError

from tests.adopt.conftest import Make
from tests.adopt.test_detect import findings

TORCH = "import torch\n"
FRAMEWORKS = {
    "a companion of another one": (
        {"requirements.txt": "tensorflow-datasets\n", "a.py": TORCH, "b.py": TORCH},
        "torch",
    ),
    "both, and the code counts": ({"requirements.txt": "tensorflow\ntorch\n", "a.py": TORCH}, "torch"),
    "a companion alone": ({"requirements.txt": "torchvision\n", "a.py": ""}, "torch"),
    "what brings it": (
        {"requirements.txt": "sentence-transformers\n", "a.py": "import sentence_transformers\n"},
        "torch",
    ),
    "an extra brings it": ({"requirements.txt": "transformers[torch]\n", "a.py": "import transformers\n"}, "torch"),
    "what can do with several": ({"requirements.txt": "transformers\n", "a.py": "import transformers\n"}, "plain"),
}


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_the_framework(kind: str, old: Make) -> None:
    files, expected = FRAMEWORKS[kind]
    answer = findings(old(files)).answers["framework"]
    assert answer.value == expected, f"{kind}: {answer.reason}"


def test_what_no_file_asks_for_is_told_by_the_imports(old: Make) -> None:
    answer = findings(old({"a.py": TORCH, **{f"b{number}.py": "" for number in range(4)}})).answers["framework"]
    assert (answer.value, answer.reason) == ("torch", "1 of 5 files import it, though no file asks for it")


FLASK = "from flask import Flask\napp = Flask(__name__)\n"
TYPES = {
    "Django": ({"requirements.txt": "django\ngunicorn\n", "manage.py": "import django\n"}, "service"),
    "Gradio": ({"app.py": "import gradio as gr\nwith gr.Blocks() as demo:\n    pass\n"}, "service"),
    "gRPC": ({"requirements.txt": "grpcio\n", "serve.py": "import grpc\n", "Dockerfile": "EXPOSE 50051\n"}, "service"),
    "Flask, asked for by nothing": ({"app.py": FLASK, "wsgi.py": "from app import app\n"}, "service"),
    "Streamlit": ({"requirements.txt": "streamlit\n", "app.py": "import streamlit as st\nst.title('x')\n"}, "service"),
    "BentoML": ({"bentofile.yaml": "python: {packages: [bentoml]}\n", "service.py": "import bentoml\n"}, "service"),
    "a program in src": ({"requirements.txt": "torch\n", "src/train.py": TORCH}, "batch"),
    "a client of the web": ({"requirements.txt": "aiohttp\n", "get.py": "import aiohttp\n"}, "batch"),
    "a port of a board": ({"requirements.txt": "torch\n", "train.py": TORCH, "Dockerfile": "EXPOSE 6006\n"}, "batch"),
    "a library with a server to try it": (
        {"setup.py": "setup(name='x', install_requires=['torch'])\n", "x/__init__.py": "", "app.py": FLASK},
        "library",
    ),
}


@pytest.mark.parametrize("kind", TYPES)
def test_the_type(kind: str, old: Make) -> None:
    files, expected = TYPES[kind]
    answer = findings(old(files)).answers["project_type"]
    assert answer.value == expected, f"{kind}: {answer.reason}"


@pytest.mark.slow
def test_projects_of_their_own_are_named(old: Make) -> None:
    maker = "[project]\nname = 'x'\n"
    files = {f"packages/{name}/pyproject.toml": maker for name in "ab"} | {"examples/c/setup.py": ""}
    [said] = findings(old({**files, "packages/a/a.py": ""})).open
    assert "packages/a, packages/b are projects of their own" in said
    assert "--prefix=packages/a" in said


@pytest.mark.slow
def test_one_project_is_no_collection(old: Make) -> None:
    files = {"pyproject.toml": "[project]\nname = 'x'\n", "a/setup.py": "", "b/setup.py": ""}
    assert not findings(old(files)).open


def test_a_name_that_is_taken_is_not_given_to_the_package(old: Make) -> None:
    with pytest.raises(AdoptError, match="package_name=main: main is a name of yours"):
        findings(old({"main.py": ""}), package_name="main")


def test_a_number_at_the_start_of_a_name_stays(old: Make) -> None:
    found = findings(old({"pyproject.toml": "[project]\nname = '3D-UNet.v2'\n"}))
    assert found.answers["project_name"].value == "ml-3d-unet-v2"
    assert found.answers["package_name"].value.isidentifier()


SELF = "from importlib import metadata\n__version__ = metadata.version({})\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (SELF.format("'x'"), True),
        (SELF.format("__package__"), True),
        (SELF.format("'torch'"), False),
        (f"try:\n    pass\nexcept PackageNotFoundError:\n    pass\n{SELF.format('__name__')}", False),
    ],
)
def test_code_that_asks_for_a_version_that_nothing_tells_is_named(text: str, asks: bool, old: Make) -> None:
    found = findings(old({"pyproject.toml": "[project]\nname = 'x'\ndynamic = ['version']\n", "x/__init__.py": text}))
    assert bool(found.open) == asks, found.open
    assert not asks or "x/__init__.py asks for the version of the package x" in found.open[0]


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": "[project]\nname = 'x'\nversion = '1.2'\n"},
        {"pyproject.toml": "[tool.poetry]\nname = 'X'\nversion = '1.2'\n"},
        {"setup.py": "from setuptools import setup\nsetup(name='x', version='1.2')\n"},
    ],
)
def test_code_that_asks_for_a_version_that_its_files_tell_is_answered(files: dict[str, str], old: Make) -> None:
    assert not findings(old({**files, "x/__init__.py": SELF.format("'x'")})).open


def test_a_python_file_counts_in_the_encoding_that_it_names(old: Make) -> None:
    folder = old({"requirements.txt": "torch\n", "a.py": ""})
    (folder / "a.py").write_bytes("# -*- coding: latin-1 -*-\nimport torch  # für\n".encode("latin-1"))
    assert "1 files import it" in findings(folder).answers["framework"].reason


@pytest.mark.slow
def test_code_in_src_counts_without_a_package(old: Make) -> None:
    layout = findings(old({"src/train.py": "", "src/nets/model.py": ""})).layout
    assert (layout.kind, layout.packages, layout.modules, layout.code) == ("src", ["nets"], ["src/train.py"], [])
