"""Requests of the Open Inference Protocol (V2), as JSON has them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

Datatype = Literal[
    "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64", "BYTES"
]


class InputTensor(BaseModel):
    """One input of a request: ``data`` in JSON, or ``parameters.binary_data_size`` bytes behind it."""

    name: str
    shape: Annotated[list[Annotated[int, Field(ge=1, strict=True)]], Field(min_length=1, max_length=8)]
    datatype: Datatype
    parameters: dict[str, Any] = {}
    data: list[Any] | None = None


class AskedOutput(BaseModel):
    """One output that is wanted."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(BaseModel):
    """A request for predictions."""

    id: str | None = None
    parameters: dict[str, Any] = {}
    inputs: Annotated[list[InputTensor], Field(min_length=1)]
    outputs: list[AskedOutput] | None = None
