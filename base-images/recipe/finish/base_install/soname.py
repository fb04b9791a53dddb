"""Under which name the loader knows a shared library, and which others it loads with it: what its file says itself."""

import struct
from typing import NamedTuple

NEEDED, STRTAB, SONAME, END = 1, 5, 14, 0
LOAD, DYNAMIC = 1, 2


class Names(NamedTuple):
    """A library's own name (DT_SONAME), "" without one, and those of the libraries that it is linked to (DT_NEEDED)."""

    own: str = ""
    needed: tuple[str, ...] = ()


def names(content: bytes) -> Names:
    """Return the names in a 64-bit little-endian ELF file (System V ABI, dynamic section); none in another file."""
    try:
        return _names(content) if content[:6] == b"\x7fELF\x02\x01" else Names()
    except (struct.error, ValueError):
        return Names()  # cut off or no library: nothing loads it


def _names(content: bytes) -> Names:
    table = struct.unpack_from("<Q", content, 32)[0]
    size, count = struct.unpack_from("<HH", content, 54)
    segments = [struct.unpack_from("<IIQQQQ", content, table + index * size) for index in range(count)]
    tags: dict[int, list[int]] = {}
    for _, _, start, _, _, length in (segment for segment in segments if segment[0] == DYNAMIC):
        for tag, value in struct.iter_unpack("<qQ", content[start : start + length // 16 * 16]):
            if tag == END:
                break
            tags.setdefault(tag, []).append(value)
    for kind, _, start, address, _, length in segments:
        if kind == LOAD and STRTAB in tags and address <= tags[STRTAB][0] < address + length:
            place = tags[STRTAB][0] - address + start
            own, needed = ([_text(content, place + at) for at in tags.get(tag, [])] for tag in (SONAME, NEEDED))
            return Names(own[0] if own else "", tuple(needed))
    return Names()


def _text(content: bytes, place: int) -> str:
    return content[place : content.index(b"\0", place)].decode("ascii", "replace")
