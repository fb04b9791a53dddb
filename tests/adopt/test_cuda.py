"""The CUDA that a repository names is found in whatever words; a comment names none, and the oldest counts."""

from __future__ import annotations

import pytest

from tests.adopt.conftest import Make
from tests.adopt.test_detect import findings

NAMED = {
    "cupy-cuda11x": ("requirements.txt", "cupy-cuda11x\n", "CuPy for CUDA 11"),
    "cupy-cuda102": ("requirements.txt", "cupy-cuda102==9.6\n", "CuPy for CUDA 10.2"),
    "libraries": ("requirements.txt", "nvidia-cublas-cu11==11.10\n", "libraries of CUDA 11"),
    "jax": ("requirements.txt", "jax[cuda11_pip]\n", "JAX for CUDA 11"),
    "wheels": ("install.sh", "pip install torch==1.9.0+cu111\n", "wheels for CUDA 11.1"),
    "cuda-version": ("environment.yml", "dependencies: [cuda-version=12.4]\n", "cuda-version 12.4"),
    "cuda-toolkit": ("environment.yml", "dependencies: [cuda-toolkit=12.4]\n", "cudatoolkit 12.4"),
    "an argument": ("Dockerfile", "ARG CUDA=11.3.1\nFROM nvidia/cuda:${CUDA}-base\n", "CUDA 11.3"),
    "Cog": ("cog.yaml", "build:\n  cuda: '11.8'\n", "CUDA 11.8"),
    "a channel": (
        "environment.yml",
        "channels: [nvidia/label/cuda-11.8.0]\ndependencies: [a]\n",
        "the channel of CUDA 11.8",
    ),
    "a build": (
        "environment.yml",
        "dependencies: ['pytorch=1.9.0=py3.8_cuda10.2_cudnn7.6_0']\n",
        "a conda build for CUDA 10.2",
    ),
    "an image of NVIDIA": (
        "Dockerfile",
        "FROM nvcr.io/nvidia/pytorch:21.06-py3\n",
        "NVIDIA's image 21.06, which has CUDA 11",
    ),
    "an image of TensorFlow": (
        "Dockerfile",
        "FROM tensorflow/tensorflow:2.14.0-gpu\n",
        "TensorFlow's image 2.14, which has CUDA 12",
    ),
    "another image": ("Dockerfile", "FROM rapidsai/base:25.02-cuda12.0-py3.11\n", "an image with CUDA 12.0"),
    "an image without a minor version": ("compose.yaml", "image: nvidia/cuda:12-base\n", "an image of CUDA 12"),
    "a development container": (
        ".devcontainer/devcontainer.json",
        '{"image": "nvidia/cuda:12.2.0"}',
        "an image of CUDA 12.2",
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_an_older_cuda_takes_the_image_for_older_drivers(kind: str, old: Make) -> None:
    path, text, words = NAMED[kind]
    found = findings(old({path: text, "a.py": "import torch\n"}))
    assert (found.facts["cuda"], found.answers["gpu_driver"].value) == (f"{path} names {words}", "525"), kind


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("# or cu130 on new nodes\n--extra-index-url https://h/whl/cu118\ntorch\n", "525"),
        ("torch  # not cu118\n", "580"),
        ("--find-links https://h/cu130#x\ntorch\n", "580"),
        ("--find-links https://h/cu130\n--find-links https://h/cu118\n", "525"),
    ],
)
def test_a_comment_names_nothing_and_the_oldest_counts(text: str, driver: str, old: Make) -> None:
    found = findings(old({"requirements.txt": text, "a.py": "import torch\n"}))
    assert found.answers["gpu_driver"].value == driver, found.facts["cuda"]


def test_an_image_that_was_is_none(old: Make) -> None:
    found = findings(old({"Dockerfile": "# was: FROM nvidia/cuda:11.0\nFROM nvcr.io/nvidia/pytorch:25.10-py3\n"}))
    assert found.answers["gpu_driver"].value == "580", found.facts["cuda"]
