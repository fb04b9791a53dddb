"""Text of files that somebody else wrote, in whatever way their editor or shell wrote it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import Any

from gpu_repo_runtime.update.git_calls import without_password

MARKS = (  # the longer first: UTF-32 begins as UTF-16 does
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


def decoded(data: bytes, errors: str = "replace") -> str:
    """Return the text of a file by the mark at its start, UTF-8 without one; line ends are those of Python.

    Raises UnicodeDecodeError where `errors` is "strict".
    """
    encoding = next((name for mark, name in MARKS if data.startswith(mark)), "utf-8")
    return data.decode(encoding, errors=errors).replace("\r\n", "\n").replace("\r", "\n")


def named(names: Sequence[str], most: int = 8) -> str:
    """Return a list in words, not more than somebody reads."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def masked(text: str) -> str:
    """Return a text without passwords and tokens, those before the host of an address that pip knows included."""
    return without_password(re.sub(r"(\w+\+https?://)[^/\s'\"]*@", r"\1", text))


def masked_all(value: Any) -> Any:
    """Return what is told to a program, without passwords and tokens in any of its texts."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: masked_all(entry) for key, entry in value.items()}
    return [masked_all(entry) for entry in value] if isinstance(value, list) else value
