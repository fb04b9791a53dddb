"""Requests and answers of the Open Inference Protocol (V2), as JSON has them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

Datatype = Literal[
    "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64", "BYTES"
]
# Any, so that pydantic changes nothing; clients that are made from the OpenAPI document are to know what it may be.
VALUES: list[dict[str, Any]] = [{"type": kind} for kind in ("boolean", "number", "string")]
Value = Annotated[Any, WithJsonSchema({"anyOf": [*VALUES, {"type": "array", "items": {}}]})]


class InputTensor(BaseModel):
    """One input of a request: ``data`` in JSON, or ``parameters.binary_data_size`` bytes behind it."""

    name: str
    shape: Annotated[list[Annotated[int, Field(ge=1, strict=True)]], Field(min_length=1, max_length=8)]
    datatype: Datatype
    parameters: dict[str, Any] = {}
    data: list[Value] | None = None


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


class OutputTensor(BaseModel):
    """One output."""

    name: str
    shape: list[int]
    datatype: Datatype
    parameters: dict[str, Any] | None = None
    data: list[Value] | None = None


class InferResponse(BaseModel):
    """The outputs of a request."""

    model_config = ConfigDict(protected_namespaces=())
    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class ServerMetadata(BaseModel):
    """This server and what it can do."""

    name: str
    version: str
    extensions: list[str]


class Live(BaseModel):
    """Whether the process is worth keeping."""

    live: bool


class Ready(Live):
    """Whether requests should be sent here."""

    ready: bool


class ModelReady(BaseModel):
    """Whether the model is ready."""

    name: str
    ready: bool


class TensorMetadata(BaseModel):
    """One tensor; -1 is a dimension of any size, and the first one counts the inputs."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelMetadata(BaseModel):
    """The tensors that go in and come out."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
