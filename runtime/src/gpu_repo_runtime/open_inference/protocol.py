"""The Open Inference Protocol (V2) of KServe and Triton, with its binary form, for tensors, texts and bytes."""

import math
from typing import Any

from fastapi import FastAPI, Response
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope

from ..owntypes import sentence
from ..serving.errors import ServiceError
from ..serving.middleware import Answer
from ..serving.predict import VERSION, Predictions
from ..serving.schemas import PLAIN, Asked, document, to_json
from ..serving.service import Service
from . import tensors
from .messages import InferRequest, InputTensor
from .tensors import Tensor, invalid_tensor

HEADER = "inference-header-content-length"
# Triton's own; what else stands in the parameters of a request is the model's.
RESERVED = {"binary_data_output", "sequence_id", "sequence_start", "sequence_end", "priority", "timeout"}
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

    async def answer(self, scope: Scope, receive: Receive, body: bytes) -> Response:
        """Predict the inputs of a request. Raises ServiceError."""
        asked, binary = _parts(body, Headers(scope=scope).get(HEADER))
        try:
            predicted = self._asked(asked, binary)
        except ServiceError as error:
            raise invalid_tensor(_renamed(error).detail, errors=error.errors) from None
        try:
            outputs = await self._predictions.outputs(predicted, scope, receive, self._plain)
        except ServiceError as error:
            raise _renamed(error) from error.__cause__
        return self._response(asked, tensors.columns(outputs, self.outputs))

    def _plain(self, outputs: list[Any]) -> list[Any]:
        return self._service.interface.plain(outputs, by_alias=self.outputs is None)

    def _asked(self, asked: InferRequest, binary: bytes) -> Asked:
        if self.inputs is None:
            raise invalid_tensor("an input of this model is not a tensor, text or bytes: ask POST /predict")
        rows: dict[str, list[Any]] = {}
        for given in asked.inputs:
            tensor = self._tensor(given.name)
            if tensor.name in rows:
                raise invalid_tensor(f"{tensor.name} is given twice")
            size = given.parameters.get("binary_data_size")
            if (size is None) == (given.data is None):
                raise invalid_tensor(f"{tensor.name}: give data, or parameters.binary_data_size")
            part = b""
            if size is not None:
                if type(size) is not int or not 0 <= size <= len(binary):
                    raise invalid_tensor(f"{tensor.name}: binary_data_size is not a part of the body")
                part, binary = binary[:size], binary[size:]
            rows[tensor.name] = self._rows(tensor, given, part)
        if binary:
            raise invalid_tensor(f"{len(binary)} bytes of the body belong to no input")
        if len({len(values) for values in rows.values()}) != 1:
            raise invalid_tensor("the inputs differ in their first dimension, which counts the inputs of the model")
        parameters = {name: value for name, value in asked.parameters.items() if name not in RESERVED}
        if not self._by_field:
            [values] = rows.values()
        else:
            values = [dict(zip(rows, one, strict=True)) for one in zip(*rows.values(), strict=True)]
        return self._service.request.read_python(values, parameters)

    def _tensor(self, name: str) -> Tensor:
        assert self.inputs
        if len(self.inputs) == 1:  # clients may call it what they like
            return self.inputs[0]
        if found := [tensor for tensor in self.inputs if tensor.name == name]:
            return found[0]
        raise invalid_tensor(f"there is an input that is none of {', '.join(tensor.name for tensor in self.inputs)}")

    def _rows(self, tensor: Tensor, given: InputTensor, binary: bytes) -> list[Any]:
        shape = given.shape
        if len(shape) == tensor.depth + 2 and shape[-1] == 1:  # as Triton's clients send one value for each input
            shape = shape[:-1]
        if len(shape) != tensor.depth + 1:
            raise invalid_tensor(f"{tensor.name} has {len(shape)} dimensions and should have {tensor.depth + 1}")
        if (given.datatype == "BYTES") != (tensor.datatype == "BYTES"):
            raise invalid_tensor(f"{tensor.name} is {given.datatype} and should be {tensor.datatype}")
        if given.data is None:
            return tensors.read_binary(tensor, binary, shape, given.datatype)
        return tensors.read_json(tensor, given.data, given.shape, shape, given.datatype)

    def _response(self, asked: InferRequest, columns: list[tuple[Tensor, list[int], list[Any]]]) -> Response:
        everything = asked.parameters.get("binary_data_output") is True
        names = {tensor.name for tensor, _, _ in columns}
        wanted = {one.name: one.parameters for one in asked.outputs or ()}
        if name := next((name for one in wanted.values() for name in one if name in OTHER_ANSWERS), None):
            raise invalid_tensor(f"an output is asked with {name}, which this service does not have")
        if not wanted.keys() <= names:
            raise invalid_tensor(f"there is no other output than {', '.join(sorted(names))}")
        outputs, binary = [], b""
        for tensor, shape, flat in columns:
            if wanted and tensor.name not in wanted:
                continue
            about: dict[str, Any] = {"name": tensor.name, "shape": shape, "datatype": tensor.datatype}
            if wanted.get(tensor.name, {}).get("binary_data", everything) is True:
                part = tensors.write_binary(tensor, flat)
                about["parameters"] = {"binary_data_size": len(part)}
                binary += part
            elif tensor.datatype == "FP64" and not all(map(math.isfinite, flat)):
                raise invalid_tensor(
                    f"{tensor.name} has a number that is not finite, which JSON has not: ask for binary_data"
                )
            else:
                about["data"] = flat
            outputs.append(about)
        head: dict[str, Any] = {"model_name": self._service.name, "model_version": VERSION, "outputs": outputs}
        if asked.id is not None:
            head["id"] = asked.id
        content = to_json(head)
        if not binary:
            return Response(content, media_type="application/json")
        return Response(content + binary, media_type="application/octet-stream", headers={HEADER: str(len(content))})


def _parts(body: bytes, length: str | None) -> tuple[InferRequest, bytes]:
    """Return the JSON and what stands behind it. Raises ServiceError."""
    end = len(body)
    if length is not None:
        if not (length.isascii() and length.isdigit() and len(length) < 19) or int(length) > len(body):
            raise invalid_tensor("Inference-Header-Content-Length is not the length of the JSON in the body")
        end = int(length)
    try:
        return InferRequest.model_validate_json(body[:end]), body[end:]
    except ValidationError as error:
        raise invalid_tensor(sentence(error)) from None


def _renamed(error: ServiceError) -> ServiceError:
    """Return the error with the name that this protocol has for the inputs."""
    error.detail = error.detail.replace("instances.", "inputs.")
    for fault in error.errors or []:
        fault["field"] = fault["field"].replace("instances.", "inputs.")
    return error


def add_open_inference(app: FastAPI, service: Service, predictions: Predictions) -> dict[str, Answer]:
    """Add the routes of the protocol; return the paths of predictions with what answers them."""
    name, protocol = service.name, OpenInference(service, predictions)

    def status(fine: bool, **about: Any) -> Response:
        return JSONResponse(about, 200 if fine else 503)

    @app.get("/v2", tags=["V2"], name="v2_server")
    async def server() -> dict[str, str | list[str]]:
        """This server and its extensions of the protocol."""
        version = service.settings.app_version
        return {"name": "gpu-repo-runtime", "version": version, "extensions": ["binary_tensor_data"]}

    @app.get("/v2/health/live", tags=["V2"], name="v2_live")
    async def live() -> Response:
        """Whether the process is healthy: 503 if not."""
        return status(service.sick is None, live=service.sick is None)

    @app.get("/v2/health/ready", tags=["V2"], name="v2_ready")
    async def ready() -> Response:
        """Whether requests should be sent here: 503 if not."""
        fine = service.state == "ready"
        return status(fine, live=service.sick is None, ready=fine)

    async def model_ready() -> Response:
        """Whether the model is ready: 503 if not."""
        fine = service.state == "ready"
        return status(fine, name=name, ready=fine)

    async def about() -> dict[str, Any]:
        """The tensors that go in and come out."""
        both = {"inputs": protocol.inputs or [], "outputs": protocol.outputs or [Tensor("output", "BYTES", 0)]}
        found = {kind: [one.about() for one in some] for kind, some in both.items()}
        return {"name": name, "versions": [VERSION], "platform": "gpu-repo-runtime", **found}

    answers: dict[str, Answer] = {}
    for version in ("", f"/versions/{VERSION}"):
        path, shown = f"/v2/models/{name}{version}", not version
        options: dict[str, Any] = {"tags": ["V2"], "include_in_schema": shown}
        app.add_api_route(f"{path}/ready", model_ready, name="v2_model_ready", **options)
        app.add_api_route(path, about, name="v2_model", **options)
        document(app, f"{path}/infer", InferRequest, dict[str, Any], PLAIN, name="v2_infer", **options)
        answers[f"{path}/infer"] = protocol.answer
    return answers
