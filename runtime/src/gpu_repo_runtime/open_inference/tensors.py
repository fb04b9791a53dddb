"""Tensors of the Open Inference Protocol, in JSON and in its binary form, and what an owner's types are in them."""

import base64
import math
import struct
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, RootModel
from pydantic_core import to_json

# The letters of the module struct.
FORMATS = {
    "BOOL": "?",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
# What is announced and answered; of what comes in any type of number is taken. FP64 loses nothing of a Python float.
DATATYPES: dict[Any, str] = {bool: "BOOL", int: "INT64", float: "FP64", str: "BYTES", bytes: "BYTES"}


class TensorError(ValueError):
    """A tensor that is not what its head says, or values that no tensor can hold."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a model: its name, its type, and how deep one input or output is (0: a single value).

    ``is_bytes``: its BYTES are bytes in Python, and base64 in JSON; else they are texts. ``is_json``: they hold, as
    JSON, what is not a tensor.
    """

    name: str
    datatype: str
    depth: int
    is_bytes: bool = False
    is_json: bool = False

    def about(self) -> dict[str, Any]:
        """Return its line of the metadata; the first dimension counts the inputs."""
        return {"name": self.name, "datatype": self.datatype, "shape": [-1] * (1 + self.depth)}


def tensors_of(type_: Any, name: str) -> list[Tensor] | None:
    """Return the tensors of an Input or Output: one for each field of a pydantic model; None: it is not a tensor."""
    type_ = inside(type_)
    if has_fields(type_):
        fields = type_.model_fields.items()
        found = [(field, about.is_required(), _tensor(about.annotation, field)) for field, about in fields]
        if any(tensor is None and required for _, required, tensor in found):
            return None
        return [tensor for _, _, tensor in found if tensor] or None
    tensor = _tensor(type_, name)
    return [tensor] if tensor else None


def inside(type_: Any) -> Any:
    """Return what stands in JSON for a type: a RootModel is what it holds."""
    while isinstance(type_, type) and issubclass(type_, RootModel):
        type_ = type_.model_fields["root"].annotation
    return type_


def has_fields(type_: Any) -> bool:
    """Whether a type is a pydantic model of fields."""
    return isinstance(type_, type) and issubclass(type_, BaseModel)


def output_tensors_of(type_: Any) -> list[Tensor] | None:
    """Return the tensors of an Output, with a field that is none as JSON; None: no fields, and not a tensor."""
    type_ = inside(type_)
    if not has_fields(type_):
        return tensors_of(type_, "output")
    fields = {name: about.annotation for name, about in type_.model_fields.items() if not about.exclude}
    fields |= {name: about.return_type for name, about in type_.model_computed_fields.items()}
    return [_tensor(kind, name) or Tensor(name, "BYTES", 0, is_json=True) for name, kind in fields.items()] or None


def _tensor(type_: Any, name: str) -> Tensor | None:
    depth = 0
    while True:
        origin, arguments = typing.get_origin(type_), typing.get_args(type_)
        if origin is typing.Annotated:
            type_ = arguments[0]
        elif origin is list and arguments:
            type_, depth = arguments[0], depth + 1
        elif origin in (typing.Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
            type_ = next(argument for argument in arguments if argument is not type(None))
        elif origin is typing.Literal:
            type_ = type(arguments[0])
        else:
            break
    return Tensor(name, DATATYPES[type_], depth, type_ is bytes) if type_ in DATATYPES else None


def is_nested_as(shape: Sequence[int], data: list[Any]) -> bool:
    """Whether nested lists are as long as a shape says, each of them."""
    if len(data) != shape[0]:
        return False
    if len(shape) == 1:
        return is_flat(data)
    return all(isinstance(part, list) and is_nested_as(shape[1:], part) for part in data)


def is_flat(data: list[Any]) -> bool:
    """Whether values stand in one list, whatever their tensor's shape is."""
    return not any(isinstance(value, list) for value in data)


def read_json(data: Any, shape: Sequence[int], datatype: str) -> list[Any]:
    """Return the rows of a tensor whose ``data`` is flat or nested lists. Raises TensorError."""
    flat: list[Any] = []
    _flatten(data, flat)
    wanted = (bool,) if datatype == "BOOL" else (str,) if datatype == "BYTES" else (int, float)
    for value in flat:
        if not isinstance(value, wanted) or (isinstance(value, bool) and datatype != "BOOL"):
            raise TensorError(f"holds a {type(value).__name__}, which is not {datatype}")
    if datatype != "BYTES" and not _fit(flat, datatype):
        raise TensorError(f"holds a number that is not {datatype}")
    return _shaped(flat, shape)


def read_binary(data: bytes, shape: Sequence[int], datatype: str) -> list[Any]:
    """Return the rows of a tensor in its binary form, with BYTES as they are. Raises TensorError."""
    if datatype == "BYTES":
        return _shaped(_split(data), shape)
    size = struct.calcsize(FORMATS[datatype])
    count = len(data) // size
    if count * size != len(data) or count != math.prod(shape):
        raise TensorError(f"has {len(data)} bytes, and its shape asks for {size * math.prod(shape)}")
    return _shaped(list(struct.unpack(f"<{count}{FORMATS[datatype]}", data)), shape)


def write_binary(flat: list[Any], datatype: str, *, is_bytes: bool) -> bytes:
    """Return a tensor in its binary form."""
    if datatype == "BYTES":
        parts = [value.encode() for value in flat]
        if is_bytes:
            parts = [base64.b64decode(part) for part in parts]
        return b"".join(struct.pack("<I", len(part)) + part for part in parts)
    return struct.pack(f"<{len(flat)}{FORMATS[datatype]}", *flat)


def columns(outputs: list[Any], tensors: list[Tensor] | None) -> list[tuple[Tensor, list[int], list[Any]]]:
    """Return name and type, shape, and flat values for outputs as Interface.plain has them.

    What is not a tensor is given as JSON in BYTES. Raises TensorError where outputs do not make up tensors.
    """
    if tensors is None:
        flat = [to_json(output, inf_nan_mode="null").decode() for output in outputs]
        return [(Tensor("output", "BYTES", 0), [len(outputs)], flat)]
    found = []
    for tensor in tensors:
        rows = [one.get(tensor.name) if isinstance(one, dict) else one for one in outputs]
        if tensor.is_json:
            rows = [to_json(row, inf_nan_mode="null").decode() for row in rows]
        flat = []
        shape = [len(rows), *_shape(rows, tensor)[1:]]
        _flatten(rows, flat)
        if not is_nested_as(shape, rows) or any(value is None for value in flat):
            raise TensorError(f"the answers' {tensor.name} are of different lengths, or none: ask POST /predict")
        if not _are(flat, tensor.datatype):
            raise TensorError(f"the answers' {tensor.name} are not {tensor.datatype}: ask POST /predict")
        found.append((tensor, shape, flat))
    return found


def _shape(rows: Any, tensor: Tensor) -> list[int]:
    shape = []
    for _ in range(tensor.depth + 1):
        shape.append(len(rows) if isinstance(rows, list) else 0)
        rows = rows[0] if isinstance(rows, list) and rows else []
    return shape


def _are(flat: list[Any], datatype: str) -> bool:
    """Whether values are of a type that a tensor of an output has."""
    if datatype == "BYTES":
        return all(type(value) is str for value in flat)
    kinds = {"BOOL": (bool,), "INT64": (int,), "FP64": (float, int)}[datatype]
    return all(type(value) in kinds for value in flat) and _fit(flat, datatype)


def _fit(flat: list[Any], datatype: str) -> bool:
    """Whether numbers, or true and false, are in the range of a type."""
    try:
        struct.pack(f"<{len(flat)}{FORMATS[datatype]}", *flat)
    except (struct.error, OverflowError):
        return False
    return True


def _flatten(data: Any, into: list[Any]) -> None:
    if isinstance(data, list):
        for part in data:
            _flatten(part, into)
    else:
        into.append(data)


def _split(data: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        if at + 4 > len(data):
            raise TensorError("ends within the length of an element")
        [length] = struct.unpack_from("<I", data, at)
        at += 4 + length
        if at > len(data):
            raise TensorError("ends within an element")
        parts.append(data[at - length : at])
    return parts


def _shaped(flat: list[Any], shape: Sequence[int]) -> list[Any]:
    """Return flat values as nested lists; every number in ``shape`` is at least 1."""
    if len(flat) != math.prod(shape):
        raise TensorError(f"has {len(flat)} values, and its shape {list(shape)} asks for {math.prod(shape)}")
    for size in reversed(shape[1:]):
        flat = [flat[start : start + size] for start in range(0, len(flat), size)]
    return flat
