"""The Open Inference Protocol (V2) of KServe and Triton, with its binary form, for tensors, texts and bytes."""

import base64
import math
import re
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from ..owntypes import sentence
from ..serving.call import Call
from ..serving.errors import InvalidRequest, InvalidTensor, PredictionFailed
from ..serving.openapi import Documents
from ..serving.predict import Predictions
from ..serving.schemas import PLAIN, Asked, to_json
from ..serving.service import Service
from ..serving.v1 import VERSION
from . import tensors
from .messages import (
    AskedOutput,
    InferRequest,
    InferResponse,
    InputTensor,
    Live,
    ModelMetadata,
    ModelReady,
    Ready,
    ServerMetadata,
)
from .tensors import Tensor, TensorError

HEADER = "inference-header-content-length"
# Triton's own; what else stands in the parameters of a request is the model's.
RESERVED = {
    "binary_data_output",
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
    "triton_enable_empty_final_response",
}
# Extensions of Triton that are not announced here: who asks for one would take the answer for another.
OTHER_ANSWERS = {"classification", "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"}


class OpenInference:
    """Requests and answers of the protocol."""

    def __init__(self, service: Service, predictions: Predictions) -> None:
        interface = service.interface
        self._service, self._predictions = service, predictions
        self.inputs = tensors.tensors_of(interface.input, "input")
        self.outputs = tensors.output_tensors_of(interface.output)
        self._by_field = tensors.has_fields(tensors.inside(interface.input))

    async def answer(self, request: Request) -> Response:
        """Predict the inputs of a request. Raises ServiceError."""
        body = await self._predictions.body(request.scope, request.receive)
        asked, binary = _parts(body, request.headers.get(HEADER))
        try:
            predicted = self._asked(asked, binary)
        except TensorError as error:
            raise InvalidTensor(str(error)) from None
        except InvalidRequest as error:
            raise InvalidTensor(error.detail, errors=error.errors) from None
        outputs = await self._predictions.outputs(predicted, request.scope, request.receive, self._plain)
        try:
            return self._response(asked, tensors.columns(outputs, self.outputs))
        except TensorError as error:
            raise InvalidTensor(str(error)) from None

    def _plain(self, call: Call) -> list[Any]:
        return self._service.plain(call, by_alias=self.outputs is None)

    def _asked(self, asked: InferRequest, binary: bytes) -> Asked:
        if self.inputs is None:
            raise InvalidTensor("an input of this model is not a tensor, text or bytes: ask POST /predict")
        rows: dict[str, list[Any]] = {}
        for given in asked.inputs:
            tensor = self._tensor(given.name)
            if tensor.name in rows:
                raise TensorError(f"{tensor.name} is given twice")
            size = given.parameters.get("binary_data_size")
            if (size is None) == (given.data is None):
                raise TensorError(f"{tensor.name}: give data, or parameters.binary_data_size")
            part = b""
            if size is not None:
                if type(size) is not int or not 0 <= size <= len(binary):
                    raise TensorError(f"{tensor.name}: binary_data_size is not a part of the body")
                part, binary = binary[:size], binary[size:]
            rows[tensor.name] = self._rows(tensor, given, part)
        if binary:
            raise TensorError(f"{len(binary)} bytes of the body belong to no input")
        if len({len(values) for values in rows.values()}) != 1:
            raise TensorError("the inputs differ in their first dimension, which counts the inputs of the model")
        parameters = {name: value for name, value in asked.parameters.items() if name not in RESERVED}
        if not self._by_field:
            [values] = rows.values()
        else:
            values = [dict(zip(rows, one, strict=True)) for one in zip(*rows.values(), strict=True)]
        return self._service.request.read_python(values, parameters, "inputs")

    def _tensor(self, name: str) -> Tensor:
        assert self.inputs
        if len(self.inputs) == 1:  # clients may call it what they like
            return self.inputs[0]
        found = [tensor for tensor in self.inputs if tensor.name == name]
        if not found:
            raise TensorError(f"there is an input that is none of {', '.join(tensor.name for tensor in self.inputs)}")
        return found[0]

    def _rows(self, tensor: Tensor, given: InputTensor, binary: bytes) -> list[Any]:
        shape = given.shape
        if len(shape) == tensor.depth + 2 and shape[-1] == 1:  # as Triton's clients send one value for each input
            shape = shape[:-1]
        if len(shape) != tensor.depth + 1:
            raise TensorError(f"{tensor.name} has {len(shape)} dimensions and should have {tensor.depth + 1}")
        if (given.datatype == "BYTES") != (tensor.datatype == "BYTES"):
            raise TensorError(f"{tensor.name} is {given.datatype} and should be {tensor.datatype}")
        try:
            if given.data is None:
                rows = tensors.read_binary(binary, shape, given.datatype)
            elif not tensors.is_flat(given.data) and not tensors.is_nested_as(given.shape, given.data):
                raise TensorError(f"has lists of other lengths than its shape {given.shape} says")
            else:
                rows = tensors.read_json(given.data, shape, given.datatype)
            if tensor.datatype == "BYTES":
                rows = _each(rows, _Read(tensor, given.data is None))
        except TensorError as error:
            raise TensorError(f"{tensor.name} {error}") from None
        return rows

    def _response(self, asked: InferRequest, columns: list[tuple[Tensor, list[int], list[Any]]]) -> Response:
        everything = asked.parameters.get("binary_data_output") is True
        wanted = _wanted(asked.outputs) if asked.outputs else None
        names = {tensor.name for tensor, _, _ in columns}
        if wanted and not wanted.keys() <= names:
            raise TensorError(f"there is no other output than {', '.join(sorted(names))}")
        outputs, binary = [], b""
        for tensor, shape, flat in columns:
            if wanted is not None and tensor.name not in wanted:
                continue
            about: dict[str, Any] = {"name": tensor.name, "shape": shape, "datatype": tensor.datatype}
            if (wanted or {}).get(tensor.name, {}).get("binary_data", everything) is True:
                part = tensors.write_binary(flat, tensor.datatype, is_bytes=tensor.is_bytes)
                about["parameters"] = {"binary_data_size": len(part)}
                binary += part
            elif tensor.datatype == "FP64" and not all(map(math.isfinite, flat)):
                raise TensorError(
                    f"{tensor.name} has a number that is not finite, which JSON has not: ask for binary_data"
                )
            else:
                about["data"] = flat
            outputs.append(about)
        head: dict[str, Any] = {"model_name": self._service.name, "model_version": VERSION, "outputs": outputs}
        if asked.id is not None:
            head["id"] = asked.id
        content = _encoded(head)
        if not binary:
            return Response(content, media_type="application/json")
        return Response(content + binary, media_type="application/octet-stream", headers={HEADER: str(len(content))})


def _encoded(answer: dict[str, Any]) -> bytes:
    try:
        return to_json(answer)
    except PydanticSerializationError as error:
        raise PredictionFailed(f"the model returned what JSON does not have: {error}") from error


def _wanted(outputs: list[AskedOutput]) -> dict[str, dict[str, Any]]:
    """Return the parameters of the outputs that are asked for, by their names. Raises TensorError."""
    for name in {name for one in outputs for name in one.parameters if name in OTHER_ANSWERS}:
        raise TensorError(f"an output is asked with {name}, which this service does not have")
    return {one.name: one.parameters for one in outputs}


_is_length = re.compile("[0-9]{1,18}").fullmatch
_FROM_URL = str.maketrans("-_", "+/")


class _Read:
    """Turns an element of BYTES into what the model takes: str, or bytes, which JSON has in base64."""

    def __init__(self, tensor: Tensor, binary: bool) -> None:
        self.text, self.binary = not tensor.is_bytes, binary

    def __call__(self, value: Any) -> Any:
        try:
            if self.text:
                return value.decode() if self.binary else value
            return value if self.binary else base64.b64decode(value.translate(_FROM_URL), validate=True)
        except (UnicodeDecodeError, ValueError):
            raise TensorError("is not UTF-8" if self.text else "is not base64") from None


def _each(rows: list[Any], change: _Read) -> list[Any]:
    return [_each(row, change) if isinstance(row, list) else change(row) for row in rows]


def _parts(body: bytes, length: str | None) -> tuple[InferRequest, bytes]:
    """Return the JSON and what stands behind it. Raises InvalidTensor."""
    end = len(body)
    if length is not None:
        if not _is_length(length) or int(length) > len(body):
            raise InvalidTensor("Inference-Header-Content-Length is not the length of the JSON in the body")
        end = int(length)
    try:
        return InferRequest.model_validate_json(body[:end]), body[end:]
    except ValidationError as error:
        raise InvalidTensor(sentence(error)) from None


def add_open_inference(app: FastAPI, service: Service, predictions: Predictions, documents: Documents) -> None:
    """Add the routes of the protocol."""
    documents.add(InferRequest, InferResponse)
    name, protocol = service.name, OpenInference(service, predictions)

    def status(about: BaseModel, fine: bool = True) -> Response:
        return Response(about.model_dump_json(), 200 if fine else 503, media_type="application/json")

    @app.get("/v2", tags=["V2"])
    async def server() -> ServerMetadata:
        """This server and what it can do."""
        version = service.settings.app_version
        return ServerMetadata(name="gpu-repo-runtime", version=version, extensions=["binary_tensor_data"])

    @app.get("/v2/health/live", tags=["V2"], response_model=Live, responses={503: {"model": Live}})
    async def live() -> Response:
        """Whether the process is worth keeping."""
        return status(Live(live=service.sick is None), service.sick is None)

    @app.get("/v2/health/ready", tags=["V2"], response_model=Ready, responses={503: {"model": Ready}})
    async def ready() -> Response:
        """Whether requests should be sent here."""
        fine = service.state == "ready"
        return status(Ready(live=service.sick is None, ready=fine), fine)

    async def model_ready() -> Response:
        """Whether the model is ready."""
        fine = service.state == "ready"
        return status(ModelReady(name=name, ready=fine), fine)

    async def about() -> ModelMetadata:
        """The tensors that go in and come out."""
        return ModelMetadata.model_validate(
            {
                "name": name,
                "versions": [VERSION],
                "platform": "gpu-repo-runtime",
                "inputs": [tensor.about() for tensor in protocol.inputs or []],
                "outputs": [tensor.about() for tensor in protocol.outputs or [Tensor("output", "BYTES", 0)]],
            }
        )

    async def infer(request: Request) -> Response:
        """Predict one or many inputs, given as tensors whose first dimension counts them."""
        return await protocol.answer(request)

    body = {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/InferRequest"}}},
    }
    good = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/InferResponse"}}}}
    for version in ("", f"/versions/{VERSION}"):
        path, shown = f"/v2/models/{name}{version}", not version
        options: dict[str, Any] = {"tags": ["V2"], "include_in_schema": shown}
        also: dict[int | str, dict[str, Any]] = {503: {"model": ModelReady}}
        app.add_api_route(f"{path}/ready", model_ready, **options, response_model=ModelReady, responses=also)
        app.add_api_route(path, about, **options)
        app.add_api_route(
            f"{path}/infer",
            infer,
            methods=["POST"],
            **options,
            response_class=Response,
            openapi_extra={"requestBody": {"required": True, **body}},
            responses={**documents.problems(PLAIN), 200: {"description": "The outputs", **good}},
        )
