"""Tensors of the Open Inference Protocol, in JSON and in its binary form, and what an owner's types are in them."""

import base64
import math
import struct
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pydantic import BaseModel, RootModel
from pydantic_core import to_json

from ..serving.errors import ServiceError

DTYPES = {
    "BOOL": "?",
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    "BYTES": "O",
}
# What is announced and answered; of what comes in any type of number is taken. FP64 loses nothing of a Python float.
DATATYPES: dict[Any, str] = {bool: "BOOL", int: "INT64", float: "FP64", str: "BYTES", bytes: "BYTES"}
KINDS: dict[str, set[type]] = {"BOOL": {bool}, "BYTES": {str}}  # of the values in JSON; of all others:
NUMBERS: set[type] = {int, float}
invalid_tensor = partial(ServiceError, code="invalid_tensor")
_FROM_URL = str.maketrans("-_", "+/")  # of the other alphabet of base64


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


def read_json(tensor: Tensor, data: list[Any], given: Sequence[int], shape: Sequence[int], datatype: str) -> list[Any]:
    """Return the rows, of ``shape``, of data that are flat or nested as the ``given`` shape. Raises ServiceError."""
    is_nested = any(isinstance(value, list) for value in data)
    flat = _flat(data, given) if is_nested else data
    if flat is None:
        raise invalid_tensor(f"{tensor.name} has lists of other lengths than its shape {list(given)} says")
    _array(tensor.name, flat, datatype)
    if tensor.is_bytes:
        try:
            flat = [base64.b64decode(value.translate(_FROM_URL), validate=True) for value in flat]
        except ValueError:
            raise invalid_tensor(f"{tensor.name} is not base64") from None
    return _shaped(tensor.name, flat, datatype, shape)


def read_binary(tensor: Tensor, data: bytes, shape: Sequence[int], datatype: str) -> list[Any]:
    """Return the rows of a tensor in its binary form. Raises ServiceError."""
    if datatype == "BYTES":
        parts: list[Any] = _split(tensor.name, data)
        try:
            texts = parts if tensor.is_bytes else [part.decode() for part in parts]
        except UnicodeDecodeError:
            raise invalid_tensor(f"{tensor.name} is not UTF-8") from None
        return _shaped(tensor.name, texts, datatype, shape)
    dtype = np.dtype(DTYPES[datatype])
    size = dtype.itemsize * math.prod(shape)
    if len(data) != size:
        raise invalid_tensor(f"{tensor.name} has {len(data)} bytes, and its shape requires {size}")
    numbers: list[Any] = np.frombuffer(data, dtype).reshape(shape).tolist()
    return numbers


def write_binary(tensor: Tensor, flat: list[Any]) -> bytes:
    """Return values in their binary form."""
    if tensor.datatype == "BYTES":
        parts = [base64.b64decode(value) if tensor.is_bytes else value.encode() for value in flat]
        return b"".join(struct.pack("<I", len(part)) + part for part in parts)
    return np.array(flat, DTYPES[tensor.datatype]).tobytes()


def columns(outputs: list[Any], tensors: list[Tensor] | None) -> list[tuple[Tensor, list[int], list[Any]]]:
    """Return name and type, shape, and flat values for outputs as Interface.plain has them.

    What is not a tensor is given as JSON in BYTES. Raises ServiceError where outputs do not make up tensors.
    """
    found = []
    for tensor in tensors or [Tensor("output", "BYTES", 0, is_json=True)]:
        rows = [one.get(tensor.name) if tensors and isinstance(one, dict) else one for one in outputs]
        if tensor.is_json:
            rows = [to_json(row, inf_nan_mode="null").decode() for row in rows]
        shape, inner = [len(rows)], rows
        for _ in range(tensor.depth):
            inner = inner[0] if inner and isinstance(inner[0], list) else []
            shape.append(len(inner))
        flat = _flat(rows, shape)
        if flat is None or None in flat:
            raise invalid_tensor(f"the answers' {tensor.name} are of different lengths, or none: ask POST /predict")
        _array(f"the answers' {tensor.name}", flat, tensor.datatype)
        found.append((tensor, shape, flat))
    return found


def _flat(data: Any, shape: Sequence[int]) -> list[Any] | None:
    """Return the values of nested lists, or None if one of them is not as long as the shape says."""
    if not isinstance(data, list) or len(data) != shape[0]:
        return None
    if len(shape) == 1:
        return None if any(isinstance(value, list) for value in data) else data
    parts = [_flat(part, shape[1:]) for part in data]
    return None if None in parts else [value for part in parts for value in part or []]


def _array(name: str, flat: list[Any], datatype: str) -> None:
    """Check that a type has these values. Raises ServiceError."""
    kinds = KINDS.get(datatype, NUMBERS)
    if wrong := {type(value) for value in flat} - kinds:
        raise invalid_tensor(f"{name} holds a {min(kind.__name__ for kind in wrong)}, which is not {datatype}")
    dtype = np.dtype(DTYPES[datatype])
    try:
        with np.errstate(over="ignore"):
            array = np.array(flat, dtype)
        exact = dtype.kind not in "iu" or float not in map(type, flat)
        overflows = dtype.kind == "f" and not np.array_equal(np.isfinite(array), np.isfinite(np.array(flat, float)))
    except (OverflowError, ValueError):
        exact, overflows = False, True
    if not exact or overflows:
        raise invalid_tensor(f"{name} holds a number that is not {datatype}")


def _shaped(name: str, flat: list[Any], datatype: str, shape: Sequence[int]) -> list[Any]:
    if len(flat) != math.prod(shape):
        raise invalid_tensor(f"{name} has {len(flat)} values, and its shape {list(shape)} requires {math.prod(shape)}")
    array = np.empty(len(flat), DTYPES[datatype])
    array[:] = flat
    rows: list[Any] = array.reshape(shape).tolist()
    return rows


def _split(name: str, data: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        end = at + 4
        if end <= len(data):
            end += struct.unpack_from("<I", data, at)[0]
        if end > len(data):
            raise invalid_tensor(f"{name} ends within an element")
        parts.append(data[at + 4 : end])
        at = end
    return parts
