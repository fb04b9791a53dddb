"""Change how a shared library finds its own libraries: DT_RUNPATH becomes DT_RPATH.

The loader searches DT_RPATH before LD_LIBRARY_PATH and DT_RUNPATH after it (ld.so(8)). With DT_RPATH a folder in
LD_LIBRARY_PATH cannot slip another CUDA library under the framework. The value stays the same; one number changes.
"""

import struct
from pathlib import Path

DT_NULL, DT_RPATH, DT_RUNPATH = 0, 15, 29
PT_DYNAMIC = 2
ENTRY = struct.Struct("<qQ")  # tag, value: an entry of the dynamic section in ELF64


def dynamic_section(header: bytes, table: bytes) -> tuple[int, int]:
    """Return (offset, size) of the dynamic section from the ELF header and the program header table."""
    size, count = struct.unpack_from("<HH", header, 54)
    for index in range(count):
        kind = struct.unpack_from("<I", table, index * size)[0]
        if kind == PT_DYNAMIC:
            offset, length = (struct.unpack_from("<Q", table, index * size + at)[0] for at in (8, 32))
            return offset, length
    return 0, 0


def search_before_environment(path: Path) -> bool:
    """Turn the library's DT_RUNPATH into DT_RPATH in place; return whether it had one.

    Raises ValueError for a file that is not a 64-bit little-endian ELF file.
    """
    with path.open("r+b") as file:
        header = file.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
        start = struct.unpack_from("<Q", header, 32)[0]
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(start)
        offset, length = dynamic_section(header, file.read(size * count))
        for position in range(offset, offset + length, ENTRY.size):
            file.seek(position)
            tag, _ = ENTRY.unpack(file.read(ENTRY.size))
            if tag == DT_RUNPATH:
                file.seek(position)
                file.write(struct.pack("<q", DT_RPATH))
                return True
            if tag == DT_NULL:
                break
    return False
