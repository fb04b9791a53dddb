"""Which libraries a shared library is linked to: DT_NEEDED of its dynamic section (elf(5), 64 bit, little-endian)."""

from __future__ import annotations

import struct
from pathlib import Path

PT_LOAD, PT_DYNAMIC, DT_NEEDED, DT_STRTAB = 1, 2, 1, 5


def needed(path: Path) -> list[bytes]:
    """Return the names of the libraries that a file is linked to; none for what is not an ELF file of that kind."""
    with path.open("rb") as file:
        header = file.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            return []
        start, (size, count) = struct.unpack_from("<Q", header, 32)[0], struct.unpack_from("<HH", header, 54)
        file.seek(start)
        table = file.read(size * count)
        segments = [struct.unpack_from("<IIQQQQ", table, size * index) for index in range(count)]
        entries = []
        for kind, _, offset, _, _, length in segments:
            if kind == PT_DYNAMIC:
                file.seek(offset)
                entries = list(struct.iter_unpack("<qQ", file.read(length - length % 16)))
        names = next((value for tag, value in entries if tag == DT_STRTAB), None)
        if names is None:
            return []
        at = next((offset + names - address for kind, _, offset, address, _, length in segments
                   if kind == PT_LOAD and address <= names < address + length), names)  # fmt: skip
        found = []
        for tag, value in entries:
            if tag == DT_NEEDED:
                file.seek(at + value)
                found.append(file.read(256).split(b"\0")[0])
        return found
