"""Which libraries a process really has: paths from /proc/self/maps, grouped by family."""

from __future__ import annotations

import ctypes
import os
import re
from typing import NamedTuple

FAMILIES = {
    "cuda": r"libcuda\.so",
    "nvml": r"libnvidia-ml\.so",
    "cudart": r"libcudart[.\-]",
    "cublas": r"libcublas(Lt)?\.so",
    "curand": r"libcurand\.so",
    "cusolver": r"libcusolver(Mg)?\.so",
    "cusparse": r"libcusparse\.so",
    "cufft": r"libcufftw?\.so",
    "nvjitlink": r"libnvJitLink\.so",
    "nvrtc": r"libnvrtc(-builtins)?\.so",
    "cudnn": r"libcudnn[_.]",
    "nccl": r"libnccl\.so",
    "cupti": r"libcupti\.so",
}
_FAMILY = {name: re.compile(pattern) for name, pattern in FAMILIES.items()}
DELETED = " (deleted)"
RTLD_DI_LINKMAP = 2
_ONE_PER_PROCESS = ("cuda", "nvml")


class Mapped(NamedTuple):
    """One mapped library: ``path`` is the real path, ``major`` the first number after ``.so.`` ("" when none)."""

    family: str
    major: str
    path: str
    deleted: bool


def parse_maps(text: str) -> list[Mapped]:
    """Return the CUDA libraries named in the text of a maps file (proc(5)), each path once, in file order."""
    found: dict[str, Mapped] = {}
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 6 or "/" not in fields[5]:
            continue
        deleted = fields[5].endswith(DELETED)
        path = fields[5][: -len(DELETED)] if deleted else fields[5]
        family = family_of(path)
        if family:
            found.setdefault(path, Mapped(family, major_of(path), path, deleted))
    return list(found.values())


def family_of(path: str) -> str | None:
    """Return the family of a library's file name, or None when it is not a CUDA library."""
    name = os.path.basename(path)
    return next((family for family, pattern in _FAMILY.items() if pattern.match(name)), None)


def major_of(path: str) -> str:
    """Return the first number of a library's version suffix: ``libcublas.so.12.9.1`` gives ``12``."""
    match = re.search(r"\.so\.(\d+)", os.path.basename(path))
    return match.group(1) if match else ""


def loaded_now() -> list[Mapped]:
    """Return this process's CUDA libraries; empty when /proc cannot be read."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as file:
            return parse_maps(file.read())
    except OSError:
        return []


def folders(libraries: list[Mapped]) -> dict[str, set[str]]:
    """Return the folders from which each family was mapped.

    Keys are ``family major``. libcuda and NVML have the driver's version there, so they count without it.
    """
    found: dict[str, set[str]] = {}
    for library in libraries:
        major = "" if library.family in _ONE_PER_PROCESS else library.major
        found.setdefault(f"{library.family} {major}".strip(), set()).add(os.path.dirname(library.path))
    return found


def duplicates(libraries: list[Mapped]) -> dict[str, list[str]]:
    """Return the families that one process mapped from more than one folder.

    Two majors side by side are legal (each has its own soname), two folders are not.
    """
    return {key: sorted(found) for key, found in sorted(folders(libraries).items()) if len(found) > 1}


class _LinkMap(ctypes.Structure):
    """Head of glibc's ``struct link_map`` (link.h)."""

    _fields_ = (("base", ctypes.c_void_p), ("name", ctypes.c_char_p))


def mapped_as(library: ctypes.CDLL) -> Mapped | None:
    """Return where an opened library was mapped from.

    The link map knows the name as opened; /proc/self/maps knows the real path and marks deleted files.
    """
    pointer = ctypes.c_void_p()
    dlinfo = ctypes.CDLL(None).dlinfo
    dlinfo.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    if dlinfo(library._handle, RTLD_DI_LINKMAP, ctypes.byref(pointer)) != 0 or not pointer.value:
        return None
    name = (ctypes.cast(pointer, ctypes.POINTER(_LinkMap)).contents.name or b"").decode("utf-8", "backslashreplace")
    real = os.path.realpath(name)
    known = {entry.path: entry for entry in loaded_now()}
    return known.get(real) or known.get(name) or Mapped(family_of(real) or "", major_of(real), real, False)
