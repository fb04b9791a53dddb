"""The devel image is the runtime image plus compilers of C++ and CUDA, and what they read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from image_tools import build
from image_tools.catalog import find_row

from .conftest import CATALOG, DEFAULT_REGISTRY, ROWS, Built

pytestmark = pytest.mark.images

NAME = "torch-cu13"
EXTENSION = """
#include <torch/extension.h>
at::Tensor twice(const at::Tensor& x) { return x * 2; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
"""
COMPILE = f"""
import subprocess, sys, sysconfig, torch
from torch.utils.cpp_extension import include_paths, library_paths
open("/tmp/ext.cpp", "w").write({EXTENSION!r})
flags = ["-O0", "-shared", "-fPIC", "-std=c++20", "-DTORCH_EXTENSION_NAME=ext"]
folders = [f"-I{{path}}" for path in (*include_paths(), sysconfig.get_path("include"))]
links = [f"-L{{path}}" for path in library_paths()] + ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
subprocess.run(["g++", *flags, *folders, "/tmp/ext.cpp", "-o", "/tmp/ext.so", *links], check=True)
sys.path.insert(0, "/tmp")
import ext
print(float(ext.twice(torch.ones(3)).sum()))
"""


CUDA_EXTENSION = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools>=80"]
build-backend = "setuptools.build_meta"
[project]
name = "twice"
version = "1.0"
""",
    "setup.py": """
import os, subprocess, sysconfig
from pathlib import Path
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class Nvcc(build_ext):
    def build_extension(self, extension):
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        names = [name.replace(".", "") for name in os.environ["TORCH_CUDA_ARCH_LIST"].split()]
        codes = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in names]
        options = ["-shared", "-Xcompiler", "-fPIC", "-cudart=shared", "-I", sysconfig.get_path("include")]
        subprocess.run(["nvcc", *options, *codes, *extension.sources, "-o", target], check=True)

setup(ext_modules=[Extension("twice", ["twice.cu"])], cmdclass={"build_ext": Nvcc})
""",
    "twice.cu": """
#include <Python.h>
#include <cuda/std/array>
__global__ void twice(float *values, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) values[index] *= cuda::std::array<float, 1>{2.0f}[0];
}
static PyObject *runtime(PyObject *, PyObject *) {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    twice<<<1, 1>>>(nullptr, 0);  // without a GPU this is an error that nobody asks for
    return PyLong_FromLong(version);
}
static PyMethodDef methods[] = {{"runtime", runtime, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "twice", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_twice() { return PyModule_Create(&module); }
""",
}
INSTALL = "uv pip install --quiet --no-deps --target /tmp/t /work/wheels/*.whl"
BUILD_WHEEL = f"uv build --wheel --quiet --out-dir /work/wheels /work && {INSTALL} && cuobjdump --list-elf /tmp/t/*.so"
LOAD = f"{INSTALL} && PYTHONPATH=/tmp/t python -c 'import twice; print(twice.runtime())'"


@pytest.fixture
def devel(client: docker.DockerClient, request: pytest.FixtureRequest) -> Iterator[tuple[Built, Built]]:
    """The runtime and the devel image of a row; the second is removed afterwards."""
    name = request.param
    if name not in ROWS:
        pytest.skip(f"IMAGE chose another image than {name}")
    for with_compilers in (False, True):
        build.build(CATALOG, argparse.Namespace(image=name, registry=DEFAULT_REGISTRY, devel=with_compilers))
    tag = build.local_tag(CATALOG, name, DEFAULT_REGISTRY)
    row = find_row(CATALOG, name)
    yield Built(client, row, client.images.get(tag)), Built(client, row, client.images.get(f"{tag}-devel"))
    client.images.remove(f"{tag}-devel", force=True)


def row(name: str) -> Any:
    """Return a parameter for a row, marked with it, so that tests of one row run together."""
    return pytest.param(name, marks=pytest.mark.row(name))


@pytest.mark.parametrize("devel", [row(NAME)], indirect=True)
def test_an_extension_compiles_on_the_layers_of_the_runtime_image(devel: tuple[Built, Built]) -> None:
    """A C++ extension of torch compiles, loads and computes; every layer of the runtime image is shared."""
    runtime, made = devel
    below = runtime.image.attrs["RootFS"]["Layers"]
    assert made.image.attrs["RootFS"]["Layers"][: len(below)] == below
    assert made.python(COMPILE).splitlines()[-1] == "6.0"


@pytest.mark.parametrize("devel", [row("plain-cu13"), row(NAME)], indirect=True)
def test_a_cuda_extension_is_built_in_devel_and_loads_in_the_runtime_image(
    devel: tuple[Built, Built], tmp_path: Path
) -> None:
    """A project with setuptools and a kernel: its wheel has machine code for each GPU of the row, and it loads."""
    runtime, made = devel
    for name, text in CUDA_EXTENSION.items():
        (tmp_path / name).write_text(text)
    volumes = {str(tmp_path): {"bind": "/work", "mode": "rw"}}
    listed = made.run("bash", "-ec", BUILD_WHEEL, volumes=volumes, network_mode="host", user="0", stderr=True)
    found = set(re.findall(r"sm_(\d+)", listed))
    assert found == {value.replace(".", "") for value in made.row["compute_capabilities"]["sass"]}, listed
    version = int(runtime.run("bash", "-ec", LOAD, volumes=volumes, user="0").strip())
    assert f"{version // 1000}.{version % 1000 // 10}" == made.row["cuda"]
