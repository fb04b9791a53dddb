"""The CUDA that a repository names, and which driver its nodes may have."""

from __future__ import annotations

import re

from adoption.findings import Answer
from adoption.packaged import Packaging
from adoption.tree import Tree

FILES = re.compile(
    r"(^|/)((Docker|Container)file[^/]*|[^/]*\.[Dd]ockerfile|[^/]*compose[^/]*\.ya?ml|pyproject\.toml|pixi\.toml|cog\.yaml|bentofile\.ya?ml|"
    r"devcontainer\.json|Singularity[^/]*|[^/]*\.def)$|^(setup\.(py|cfg)|[^/]*\.sh|Makefile|Pipfile|(conda|env)[^/]*\.ya?ml)$"
)
NAMED = (  # what names a version of CUDA, and how that is said; where no minor version is named, it is 0
    (r"\bcu(\d{2})(\d)\b", "wheels for CUDA {}"),
    (r"\bcupy-cuda(\d{2})(\d|x)\b", "CuPy for CUDA {}"),
    (r"\bnvidia-[a-z-]+-cu(\d{2})\b", "libraries of CUDA {}"),
    (r"\bjax\w*\[[^\]]*cuda(\d{2})", "JAX for CUDA {}"),
    (r"pytorch-cuda\s*[=<>~]+\s*(\d+)\.(\d+)", "pytorch-cuda {}"),
    (r"cuda-?toolkit\s*[=<>~]+\s*(\d+)(?:\.(\d+))?", "cudatoolkit {}"),
    (r"cuda-version\s*[=<>~]+\s*(\d+)(?:\.(\d+))?", "cuda-version {}"),
    (r"(?i)(?<![\w/.-])cuda(?:_?version)?[\"']?\s*[:=]\s*[\"']?(\d+)(?:\.(\d+))?(?![\w])", "CUDA {}"),
    (r"nvidia/label/cuda-(\d+)\.(\d+)", "the channel of CUDA {}"),
    (r"=\s*[\w.]*cuda_?(\d{2})\.(\d)", "a conda build for CUDA {}"),
    (r"=\s*[\w.]*cuda_?(\d{2})(\d)", "a conda build for CUDA {}"),
    (r"nvidia/cuda:(\d+)(?:\.(\d+))?", "an image of CUDA {}"),
    (r"[\w.-]+/[\w.-]+:\S*cuda(\d+)\.(\d+)", "an image with CUDA {}"),
)
PATTERNS = [(re.compile(pattern), words) for pattern, words in NAMED]
NVIDIA = re.compile(r"nvcr\.io/nvidia/(?:pytorch|tensorflow|tensorrt|jax|cuda-dl-base|merlin[\w-]*):(\d{2})\.(\d{2})")
NVIDIA_SINCE = (((25, 8), 13), ((23, 1), 12), ((20, 6), 11), ((0, 0), 10))  # the month of the first image with it
TENSORFLOW = re.compile(r"tensorflow/tensorflow:(\d+)\.(\d+)\S*gpu")
TENSORFLOW_SINCE = (((2, 13), 12), ((2, 4), 11), ((0, 0), 10))
OLDEST, NEWEST = 9, 13


def without_comments(text: str) -> str:
    """Return a text without its comments: what they name is another time's."""
    return re.sub(r"(?m)(^|\s)(#|//).*$", r"\1", text)


def cuda_wanted(tree: Tree, packaging: Packaging) -> tuple[str, int, int] | None:
    """Return the words and the number of the oldest CUDA that its files name: a newer node runs that one too."""
    texts = {path: tree.text(path) for path in tree.paths if FILES.search(path)} | packaging.texts
    found = [
        (f"{path} names {words}", major, minor)
        for path, text in texts.items()
        for words, major, minor in named_in(without_comments(text))
        if OLDEST <= major <= NEWEST
    ]
    return min(found, key=lambda entry: entry[1:]) if found else None


def named_in(text: str) -> list[tuple[str, int, int]]:
    """Return each version of CUDA that a text names: in words, and as two numbers."""
    found = []
    for pattern, words in PATTERNS:
        for match in pattern.finditer(text):
            minor = (match[2] or "") if pattern.groups > 1 else ""
            version = f"{match[1]}.{minor}" if minor.isdigit() else match[1]
            found.append((words.format(version), int(match[1]), int(minor) if minor.isdigit() else 0))
    for pattern, since, whose in ((NVIDIA, NVIDIA_SINCE, "NVIDIA"), (TENSORFLOW, TENSORFLOW_SINCE, "TensorFlow")):
        for match in pattern.finditer(text):
            major = next(cuda for first, cuda in since if (int(match[1]), int(match[2])) >= first)
            found.append((f"{whose}'s image {match[1]}.{match[2]}, which has CUDA {major}", major, 0))
    return found


def gpu_driver(wanted: tuple[str, int, int] | None) -> Answer:
    """Return the oldest driver that the nodes may have, by the CUDA that the repository names."""
    if wanted is None:
        return Answer("580", "no file names a CUDA version, so the newest image is right")
    if wanted[1] >= NEWEST:
        return Answer("580", wanted[0])
    return Answer("525", f"{wanted[0]}, so its nodes may have an older driver; this image runs on newer ones, too")
