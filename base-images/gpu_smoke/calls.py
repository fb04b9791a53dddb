"""Open libraries and call C functions, with every outcome as data."""

from __future__ import annotations

import ctypes
import os
import re
import site
import sys
from typing import Any, NamedTuple

from . import elf, loaded
from .host import Host, clean
from .isolate import Session
from .numbers import named
from .verdicts import Context

DRIVER_FOLDERS = (
    "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib", "/home/kubernetes/bin/nvidia/lib64",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/nvidia/driver/usr/lib64", "/.singularity.d/libs", "/run/opengl-driver/lib",
)  # fmt: skip
ASIDE = re.compile(r"/(stubs|compat)(/|$)")


class CallFailed(Exception):
    """A C function gave a code that is not 0. ``call`` is its name, ``rc`` the code."""

    def __init__(self, call: str, rc: int) -> None:
        super().__init__(f"{call} gave {named('cuda', rc)}")
        self.call, self.rc = call, rc


class Api:
    """Call functions of one library by name; arguments must be ctypes objects or None."""

    def __init__(self, library: ctypes.CDLL, session: Session, label: str) -> None:
        self.library, self.session, self.label = library, session, label

    def code(self, name: str, *args: Any) -> int:
        """Call and return the code. Raises AttributeError when the library has no such function."""
        function = getattr(self.library, name)
        function.restype = ctypes.c_int
        self.session.note(f"{name} of {self.label}")
        return int(function(*args))

    def check(self, name: str, *args: Any) -> None:
        """Call and raise CallFailed when the code is not 0."""
        rc = self.code(name, *args)
        if rc:
            raise CallFailed(name, rc)

    def number(self, name: str, *before: Any) -> int:
        """Call a getter ``name(..., int *)`` and return the number."""
        value = ctypes.c_int(0)
        self.check(name, *before, ctypes.byref(value))
        return value.value

    def size(self, name: str) -> int:
        """Call a getter without arguments that returns a ``size_t``."""
        function = getattr(self.library, name)
        function.restype = ctypes.c_size_t
        self.session.note(f"{name} of {self.label}")
        return int(function())

    def missing(self, names: tuple[str, ...]) -> list[str]:
        """Return the functions that the library lacks."""
        return [name for name in names if not hasattr(self.library, name)]


class Opened(NamedTuple):
    """An opened library (None when that failed) and the facts about it."""

    library: ctypes.CDLL | None
    facts: dict[str, Any]


def open_library(context: Context, session: Session, soname: str, wheels: bool = False) -> Opened:
    """Open a library as any program would, by its bare name; with ``wheels``, fall back to the wheel folders.

    The facts say which file it is, or what stands in its place: see ``candidates``.
    """
    facts: dict[str, Any] = {"soname": soname, "loaded": False, "by": "", "path": "", "error": ""}
    files = candidates(context, soname)
    first = next((file for file in files if file["where"] in ("path", "system")), None)
    if first and first["kind"] == "truncated":
        # The loader maps such a file and dies by SIGBUS.
        facts.update(error=f"not loaded: {first['path']} is cut off", candidates=files)
        return Opened(None, facts)
    names = [soname]
    if wheels:
        names += [path for folder in wheel_folders() if os.path.exists(path := os.path.join(folder, soname))]
    for name in names:
        session.note(f"loading {name}")
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            facts["error"] = clean(error)
        else:
            return Opened(library, _describe(facts, library, "loader" if name == soname else "wheel"))
    facts["candidates"] = files
    return Opened(None, facts)


def _describe(facts: dict[str, Any], library: ctypes.CDLL, by: str) -> dict[str, Any]:
    mapped = loaded.mapped_as(library)
    facts.update(loaded=True, by=by)
    if mapped:
        # A mount of a deleted file is still there; a file that is gone will not open a second time.
        gone = mapped.deleted and not os.path.exists(mapped.path)
        facts.update(path=clean(mapped.path), deleted=mapped.deleted, gone=gone)
    return facts


def candidates(context: Context, soname: str) -> list[dict[str, str]]:
    """Return every file of that name in the folders where it may lie, in the loader's order.

    ``where`` is ``path`` (LD_LIBRARY_PATH), ``system`` (folders of ldconfig), ``driver`` (where nodes mount the driver)
    or ``aside`` (stubs and compat folders); ``kind`` is that of ``elf.classify``.
    """
    host = context.host
    places = [(folder, "path") for folder in context.env.get("LD_LIBRARY_PATH", "").split(":") if folder]
    places += [(host.path(folder), "system") for folder in system_folders(host)]
    places += [(host.path(folder), "driver") for folder in DRIVER_FOLDERS]
    places += [(host.path(folder), "aside") for folder in host.files("/usr/local/cuda*/compat")]
    found, seen = [], set()
    for folder, where in places:
        path = os.path.join(folder, soname)
        if os.path.lexists(path) and path not in seen:
            seen.add(path)
            kind = elf.classify(path)
            aside = "aside" if ASIDE.search(folder) and where != "path" else where
            found.append({"path": clean(path), "where": aside, "kind": kind.kind, "detail": clean(kind.detail)})
    return found


def system_folders(host: Host) -> list[str]:
    """Return the folders that ldconfig covers: the built-in ones and those of /etc/ld.so.conf.d."""
    triplet = f"{os.uname().machine}-linux-gnu"
    folders = [f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib64", "/usr/lib64", "/lib", "/usr/lib"]
    for name in host.names("/etc/ld.so.conf.d"):
        lines = (host.read(f"/etc/ld.so.conf.d/{name}") or "").splitlines()
        folders += [line.strip() for line in lines if line.strip().startswith("/")]
    return list(dict.fromkeys(folders))


def wheel_folders() -> list[str]:
    """Return the library folders of NVIDIA's wheels on this program's path."""
    roots = dict.fromkeys([*sys.path, *site.getsitepackages()])
    found = []
    for root in roots:
        base = os.path.join(root, "nvidia")
        for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
            folder = os.path.join(base, name, "lib")
            if os.path.isdir(folder):
                found.append(folder)
    return found
