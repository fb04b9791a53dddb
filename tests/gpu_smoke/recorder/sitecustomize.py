"""Put on the path of gpu-smoke: writes down each C function that it calls and what it hands over.

One line of JSON for each call in the file $RECORD_CALLS: name, size of the answer, arguments as `describe` gives them.
"""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

from gpu_smoke import calls

_FLOATS = (ctypes.c_float, ctypes.c_double)


def describe(argument: Any) -> dict[str, Any]:
    """Return `kind` (pointer, float or int), `size` in bytes, and `target`: bytes behind a pointer, 0 when not known.

    `value` is that of a number; `item` the size of an item where the target is an array.
    """
    if argument is None or isinstance(argument, (ctypes.c_void_p, ctypes.c_char_p, bytes)):
        return {"kind": "pointer", "size": 8, "target": 0}
    behind = argument if isinstance(argument, ctypes.Array) else getattr(argument, "_obj", None)
    if behind is not None:
        item = {"item": ctypes.sizeof(behind._type_)} if isinstance(behind, ctypes.Array) else {}
        return {"kind": "pointer", "size": 8, "target": ctypes.sizeof(behind), **item}
    kind = "float" if isinstance(argument, _FLOATS) else "int"
    return {"kind": kind, "size": ctypes.sizeof(argument), "target": 0, "value": argument.value}


def _write(name: str, answer: Any, arguments: tuple[Any, ...]) -> None:
    entry = {"name": name, "answer": ctypes.sizeof(answer), "arguments": [describe(a) for a in arguments]}
    with open(os.environ["RECORD_CALLS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


class Recorded(calls.Api):
    """The same calls, written down before they are made."""

    def code(self, name: str, *args: Any) -> int:
        """Write down, then call."""
        _write(name, ctypes.c_int, args)
        return super().code(name, *args)

    def size(self, name: str) -> int:
        """Write down, then call."""
        _write(name, ctypes.c_size_t, ())
        return super().size(name)


if "RECORD_CALLS" in os.environ:
    calls.Api = Recorded  # type: ignore[misc]
