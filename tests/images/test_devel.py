"""The devel image is the runtime image plus a compiler and what a compiler reads."""

from __future__ import annotations

import argparse

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


@pytest.mark.row(NAME)
@pytest.mark.skipif(NAME not in ROWS, reason=f"IMAGE chose another image than {NAME}")
def test_an_extension_compiles_on_the_layers_of_the_runtime_image(client: docker.DockerClient) -> None:
    """A C++ extension of torch compiles, loads and computes; every layer of the runtime image is shared."""
    for devel in (False, True):
        build.build(CATALOG, argparse.Namespace(image=NAME, registry=DEFAULT_REGISTRY, devel=devel))
    tag = build.local_tag(CATALOG, NAME, DEFAULT_REGISTRY)
    runtime, devel_image = (client.images.get(name) for name in (tag, f"{tag}-devel"))
    below = runtime.attrs["RootFS"]["Layers"]
    assert devel_image.attrs["RootFS"]["Layers"][: len(below)] == below
    made = Built(client, find_row(CATALOG, NAME), devel_image)
    assert made.python(COMPILE).splitlines()[-1] == "6.0"
    client.images.remove(f"{tag}-devel", force=True)
