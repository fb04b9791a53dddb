"""Tell what a file that should be a shared library really is, without loading it."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, NamedTuple

MACHINES = {3: "i386", 20: "ppc", 21: "ppc64le", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


class FileKind(NamedTuple):
    """``kind`` is one of ok, missing, dangling, directory, unreadable, empty, not-elf, truncated, wrong-arch."""

    kind: str
    detail: str = ""


def own_architecture() -> str:
    """Return the machine and word size of this program, such as ``x86_64 64-bit``."""
    return f"{os.uname().machine} {struct.calcsize('P') * 8}-bit"


def classify(path: str) -> FileKind:
    """Classify the file at ``path`` by stat, ELF header and segment table (System V ABI, ELF header)."""
    if not os.path.exists(path):
        return FileKind("dangling", os.readlink(path)) if os.path.islink(path) else FileKind("missing")
    if os.path.isdir(path):
        return FileKind("directory")
    if not os.path.isfile(path):
        return FileKind("not-elf", "a pipe, socket or device")  # opening one may wait for ever
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return FileKind("empty") if size == 0 else _classify_bytes(file, size)
    except OSError as error:
        return FileKind("unreadable", error.strerror or "")


def _classify_bytes(file: BinaryIO, size: int) -> FileKind:
    head = file.read(64)
    if head[:4] != b"\x7fELF":
        return FileKind("not-elf")
    if len(head) < 64:
        return FileKind("truncated", f"{size} bytes")
    bits, order = (64 if head[4] == 2 else 32), ("<" if head[5] == 1 else ">")
    machine = struct.unpack_from(order + "H", head, 18)[0]
    found = f"{MACHINES.get(machine, f'machine {machine}')} {bits}-bit"
    if found != own_architecture():
        return FileKind("wrong-arch", found)
    end = _segments_end(file, head, order)
    if end is None or end > size:
        return FileKind("truncated", f"{size} bytes, its segments need {end or 'more'}")
    return FileKind("ok")


def _segments_end(file: BinaryIO, head: bytes, order: str) -> int | None:
    """Return the offset at which the last loadable byte of a 64-bit file ends, or None when the table is cut off."""
    offset = struct.unpack_from(order + "Q", head, 32)[0]
    entry, count = struct.unpack_from(order + "HH", head, 54)
    file.seek(offset)
    table = file.read(entry * count)
    if entry < 56 or not count or len(table) < entry * count:
        return None
    ends = []
    for index in range(count):
        kind = struct.unpack_from(order + "I", table, index * entry)[0]
        start = struct.unpack_from(order + "Q", table, index * entry + 8)[0]
        length = struct.unpack_from(order + "Q", table, index * entry + 32)[0]
        if kind == 1:
            ends.append(start + length)
    return max(ends, default=None)
