"""Whether packages fit the image: not another version of what it contains, and no library a second time."""

import json
import mmap
import os
import re
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

Versions = Mapping[NormalizedName, Version]
# The CUDA that a package is made for: nvidia-cublas-cu12, cupy-cuda12x, faiss-gpu-cu12, torchvision 0.25+cu128.
CUDA_IN_NAME = re.compile(r"-(?:cu|cuda)(\d{2})[\dx]?(?=-|$)")
CUDA_IN_VERSION = re.compile(r"(?:^|\.)cu(\d{2})\d*$")
NVIDIA = ("nvidia-", "cuda-")
# A copy whose name carries a hash (libcudart-1a2b3c4d.so.13) is private to its wheel and does not match.
LIBRARY = re.compile(r"(lib\w+)\.so(?:\.\d[\d.]*)?")
# Libraries whose number is that of CUDA. A file names them where it links them and where it opens them.
OF_CUDA = re.compile(rb"lib(cudart|cublas|cublasLt|nvrtc)\.so\.(\d{2})\b")


class Image(NamedTuple):
    """The facts of the image: its name, Python, CUDA (major version) and what it contains."""

    name: str
    python: str
    cuda: str
    held: Versions


def read_image(base: Path) -> Image:
    """Return the facts of the image whose /opt/base is given."""
    facts = json.loads((base / "image.json").read_text())
    lines = (line.split("==") for line in (base / "constraints.txt").read_text().split())
    held = {canonicalize_name(name): Version(version) for name, version in lines}
    return Image(facts["name"], facts["python"], facts["cuda"].split(".")[0], held)


def library(name: str) -> str:
    """Return a package's name without its CUDA: nvidia-cublas-cu12 and nvidia-cublas are one library."""
    return CUDA_IN_NAME.sub("", name) if name.startswith(NVIDIA) else name


def misfits(packages: Versions, image: Image) -> Iterator[str]:
    """Yield in one phrase each package that the image cannot take."""
    owners = {library(name): f"{name} {version}" for name, version in image.held.items()}
    for name, version in packages.items():
        made_for = CUDA_IN_NAME.search(name) or CUDA_IN_VERSION.search(version.local or "")
        if name in image.held:
            if image.held[name] != version:
                yield f"{name}: the lock has {version}, the image has {image.held[name]}"
        elif library(name) in owners:
            yield f"{name} {version}: a second copy of {owners[library(name)]}"
        elif made_for and made_for[1] != image.cuda and not name.startswith(NVIDIA):
            yield f"{name} {version}: made for CUDA {made_for[1]}, the image has CUDA {image.cuda}"


def installed() -> dict[NormalizedName, metadata.Distribution]:
    """Return the packages of this environment by name; those that base-install itself runs with are not in it."""
    found = metadata.distributions(path=[sysconfig.get_path("purelib")])
    return {canonicalize_name(one.name): one for one in found if one.name}


def recorded(distribution: metadata.Distribution) -> dict[Path, str]:
    """Return the files of a package and their hashes ("" where it records none)."""
    return {
        Path(os.path.normpath(str(distribution.locate_file(file)))): file.hash.value if file.hash else ""
        for file in distribution.files or ()
    }


def damage(image: Image, added: Iterable[NormalizedName]) -> Iterator[str]:
    """Yield in one phrase what packages did to the image: replaced a file, or brought a library a second time."""
    now = installed()
    own = [name for name in image.held if name in now]
    # What the image left out of a package is in its record all the same.
    files = {path: (name, digest) for name in own for path, digest in recorded(now[name]).items() if path.exists()}
    libraries = {match[1]: name for path, (name, _) in files.items() if (match := LIBRARY.fullmatch(path.name))}
    for name in added:
        new = recorded(now[name])
        for path, digest in new.items():
            owner, before = files.get(path, ("", digest))
            match = LIBRARY.fullmatch(path.name)
            if before != digest:
                yield f"{name} replaces {path}, which belongs to {owner}"
            elif match and not owner and libraries.get(match[1], "").startswith(NVIDIA):
                yield f"{name} contains {path.name}, which the image has from {libraries[match[1]]}"
        majors = {major for path in new if ".so" in path.name for major in cuda_named_in(path)}
        if majors and image.cuda not in majors:
            yield f"{name} is built for CUDA {min(majors)}, the image has CUDA {image.cuda}"


def cuda_named_in(path: Path) -> set[str]:
    """Return the major versions of CUDA for which a file names every CUDA library that it names at all."""
    if not path.is_file() or not path.stat().st_size:
        return set()
    named: dict[bytes, set[str]] = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for library, major in OF_CUDA.findall(content):
            named.setdefault(library, set()).add(major.decode())
    return set.intersection(*named.values()) if named else set()
