"""The values that options take. argparse says what was wrong, and with which option."""

import argparse
import codecs
import io
import math
import os
import re
from collections.abc import Callable

import pyarrow as pa

from .columns import DECLARED

_ONE_SLASH = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
# What a 64-bit number, a float and Arrow all hold.
LARGEST = 1 << 53


def _number(text: str, kind: Callable[[str], float], holds: Callable[[float], bool], words: str) -> float:
    try:
        number = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {words}") from None
    if math.isfinite(number) and abs(number) > LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {words}, or too large: {LARGEST:,} is the largest")
    if not math.isfinite(number) or not holds(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a {words}")
    return number


def positive(text: str) -> int:
    """Return a whole number from 1 on."""
    return int(_number(text, int, lambda number: number >= 1, "whole number from 1 on"))


def whole(text: str) -> int:
    """Return a whole number from 0 on that any random generator takes as its seed."""
    return int(_number(text, int, lambda number: 0 <= number < 1 << 32, f"whole number from 0 to {(1 << 32) - 1}"))


def share(text: str) -> float:
    """Return a share of a whole."""
    return _number(text, float, lambda number: 0 <= number <= 1, "share from 0 to 1")


def above_zero(text: str) -> float:
    """Return a number above 0."""
    return _number(text, float, lambda number: number > 0, "number above 0")


def seconds(text: str) -> float:
    """Return a time, which may be 0."""
    return _number(text, float, lambda number: number >= 0, "number of seconds from 0 on")


def address(text: str) -> str:
    """Return a path or URI that is not blank and, as a URI, not only a scheme.

    A relative path is one of JOB_FOLDER, where that is set: scripts/run sets it to the folder it is called from.
    """
    begin = _ONE_SLASH.match(text)
    if begin and begin["scheme"].lower() == "file":
        # As Hadoop and Java write it.
        return "file://" + text[begin.end("scheme") + 1 :]
    if begin:
        folder = f"{begin[0].rstrip('/')} in an address needs two slashes: {begin['scheme']}://..."
        raise argparse.ArgumentTypeError(f"{text!r}: {folder} (a folder of this name is ./{text})")
    return not_blank(text) if "://" in text else os.path.join(os.environ.get("JOB_FOLDER", ""), not_blank(text))


def not_blank(text: str) -> str:
    """Return an address that is not blank and not only a scheme."""
    _, scheme, rest = text.partition("://")
    if not (rest.strip("/ ") or text == "file:///" if scheme else text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a path nor a URI (is a variable empty?)")
    return text


def delimiter(text: str) -> str:
    r"""Return one character; \t is a tab."""
    found = "\t" if text == "\\t" else text
    if len(found) != 1 or found in '"\r\n':
        raise argparse.ArgumentTypeError(f"{text!r} is not one character that can separate fields")
    return found


def encoding(text: str) -> str:
    """Return the name of an encoding of text, "" for UTF-8."""
    try:
        known = codecs.lookup(text)
        lines = ["a" * 100 + "\n", "b\n"]
        if text == "punycode" or [*io.TextIOWrapper(io.BytesIO("".join(lines).encode(text)), text)] != lines:
            raise LookupError
    except (LookupError, ValueError, TypeError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an encoding of text, for example latin-1 or utf-16"
        ) from None
    return "" if known.name in ("utf-8", "utf-8-sig") else known.name


def column_types(text: str) -> dict[str, pa.DataType]:
    """Return the types of columns, written as score=double,zip=string."""
    pairs = [part.rpartition("=") for part in text.split(",") if part]
    wrong = [form for name, _, form in pairs if not name or form not in DECLARED]
    if wrong:
        raise argparse.ArgumentTypeError(f"{text!r}: expected COLUMN=TYPE, with a type of {', '.join(DECLARED)}")
    return {name: DECLARED[form] for name, _, form in pairs}
