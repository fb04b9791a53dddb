"""Put on the path of gpu-smoke: writes down each C function that it calls and what it hands over.

One line of JSON for each call in the file $RECORD_CALLS: name, size of the answer, arguments as `describe` gives them.
"""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

OF_NVIDIA = ("cu", "nvml", "nccl")
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


class Function:
    """A function of a library that writes each call down before it is made."""

    restype: Any = ctypes.c_int

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function

    def __call__(self, *arguments: Any) -> Any:
        """Write down, then call."""
        given = [describe(argument) for argument in arguments]
        entry = {"name": self.name, "answer": ctypes.sizeof(self.restype), "arguments": given}
        with open(os.environ["RECORD_CALLS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self.function.restype = self.restype
        return self.function(*arguments)


class Library(ctypes.CDLL):
    """A library whose functions of NVIDIA are written down."""

    def __getitem__(self, name: str) -> Any:
        """Return the function. Raises AttributeError where the library has none of this name."""
        function = super().__getitem__(name)
        return Function(name, function) if name.startswith(OF_NVIDIA) else function


if "RECORD_CALLS" in os.environ:
    ctypes.CDLL = Library  # type: ignore[misc]
