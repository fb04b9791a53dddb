"""Under which name the loader knows a shared library: what it says of itself, whatever its file is called."""

import struct

DYNAMIC, STRTAB, SONAME, END = 2, 5, 14, 0
LOAD = 1


def soname(content: bytes) -> str:
    """Return the DT_SONAME of a 64-bit little-endian ELF file (System V ABI, dynamic section), or "" without one."""
    try:
        return _soname(content) if content[:6] == b"\x7fELF\x02\x01" else ""
    except (struct.error, ValueError):
        return ""  # cut off or no library: nothing loads it


def _soname(content: bytes) -> str:
    table = struct.unpack_from("<Q", content, 32)[0]
    size, count = struct.unpack_from("<HH", content, 54)
    segments = [struct.unpack_from("<IIQQQQ", content, table + index * size) for index in range(count)]
    tags = {}
    for _, _, start, _, _, length in (segment for segment in segments if segment[0] == DYNAMIC):
        for tag, value in struct.iter_unpack("<qQ", content[start : start + length // 16 * 16]):
            if tag == END:
                break
            tags[tag] = value
    if SONAME not in tags or STRTAB not in tags:
        return ""
    for kind, _, start, address, _, length in segments:
        if kind == LOAD and address <= tags[STRTAB] < address + length:
            place = tags[STRTAB] - address + start + tags[SONAME]
            return content[place : content.index(b"\0", place)].decode("ascii", "replace")
    return ""
