"""What ``/predict`` takes and gives, and how errors look; all of it appears in ``/docs``."""

from collections.abc import Callable
from functools import partial
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple

import pydantic_core
from fastapi import FastAPI
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic import create_model as create

from ..interface import BOTH_NAMES, Interface
from ..owntypes import names_in, unrepeated
from .errors import CODES, ServiceError, invalid_request
from .settings import Settings

# The media types of errors: clients of /v1 and /v2 look for one only in what is called plain JSON.
PROBLEM, PLAIN = "application/problem+json", "application/json"
SHOWN = [about for code, about in CODES.items() if code not in ("internal", "client_gone")]
PROBLEMS = {status: "; ".join(title for other, title in SHOWN if other == status) for status, _ in SHOWN}
AS_PROBLEM = {"content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}}  # of an OpenAPI document
# Faults of a body that has another form than {"instances": [...]}.
OTHER_FORM = {"missing", "model_type", "list_type", "extra_forbidden"}
FORM = 'send {"instances": [input, ...]}, as /docs shows it'


class Problem(BaseModel):
    """An error after RFC 9457; ``code`` is for programs, ``errors`` names the fields that are wrong.

    ``error`` says the same as ``detail`` to clients of TensorFlow Serving and the Open Inference Protocol.
    """

    title: str
    status: int
    code: str
    detail: str
    request_id: str
    error: str = ""
    errors: list[dict[str, str]] | None = None


class Health(BaseModel):
    """State of the service and what runs here."""

    status: str
    reason: str
    version: str
    image: str
    device: str
    weights: str = ""


class Asked(NamedTuple):
    """A request for predictions; ``parameters`` is None where it names none."""

    inputs: list[Any]
    parameters: Any


class _NoParameters(BaseModel):
    """This model takes no parameters."""

    model_config = ConfigDict(extra="forbid", title="NoParameters")


class PredictRequest:
    """The body ``{"instances": [...], "parameters": {...}}`` and its answer, under the limits of ``settings``."""

    def __init__(self, settings: Settings, interface: Interface) -> None:
        self._interface = interface
        examples, one, alias = interface.examples(), interface.input, None
        if interface.is_text:
            one = Annotated[one, StringConstraints(min_length=1, max_length=settings.max_text_chars)]
            examples = [text for text in examples if text]
            alias = AliasChoices(*(("texts", "instances") if interface.dated else ("instances", "texts")))  # as in 0.2
        self._name = alias.choices[0] if alias else "instances"
        # The tests of children of 0.3 to 0.5 read it.
        self.example = {"instances": [interface.as_asked(example) for example in examples][: settings.max_texts]}
        limits = Field(min_length=1, max_length=settings.max_texts, description="The inputs to predict, one or many")
        many: Any = Annotated[GenericAlias(list, (one,)), limits]
        serving_default = Field(description="As TensorFlow Serving has it")
        fields: dict[str, Any] = {
            "instances": (Annotated[many, Field(validation_alias=alias)], ...),
            "signature_name": (Annotated[Literal["serving_default"] | None, serving_default], None),
            "parameters": ((interface.parameters or _NoParameters) | None, None),
        }
        self.model = create("PredictRequest", __config__=ConfigDict(extra="forbid", strict=True), **fields)
        self.response = create(
            "PredictResponse",
            __doc__="One prediction for each input, in the order of the request. "
            "A number that is not finite comes as null where the type has null; else it is an error.",
            predictions=(list[interface.output], ...),  # type: ignore[name-defined]
        )
        self._type: TypeAdapter[Any] = TypeAdapter(self.model)
        self._names = frozenset(names_in([self._type.core_schema, "inputs"]))  # aliases and tags too

    def read(self, body: bytes) -> Asked:
        """Return the inputs of a JSON body. The error names what is wrong and repeats nothing of the body."""
        return self._asked(self._type.validate_json, body)

    def read_blob(self, body: bytes) -> Asked:
        """Return the input whose field of bytes is the body. Raises ServiceError."""
        return self.read_python([{str(self._interface.blob): body}], {})

    def read_python(self, inputs: list[Any], parameters: dict[str, Any]) -> Asked:
        """Return inputs and parameters that were not JSON, by the names of their fields or by those in JSON."""
        validate = partial(self._type.validate_python, strict=False)
        return self._asked(validate, {"instances": inputs, "parameters": parameters or None})

    def _asked(self, validate: Callable[..., Any], value: Any) -> Asked:
        try:
            asked = validate(value, **BOTH_NAMES)
        except ValidationError as error:
            raise self._invalid(error) from None
        return Asked(asked.instances, None if self._interface.parameters is None else asked.parameters)

    def document(self, app: FastAPI, path: str, media_type: str, **options: Any) -> None:
        """Document a path of predictions, whose errors have a media type."""
        content: dict[str, Any] = {"application/json": {"example": {str(self._name): self.example["instances"]}}}
        if self._interface.blob:
            # image/... is taken too; generators of clients stop at a media type that is a pattern.
            content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
        extra = {"requestBody": {"content": content}}
        document(app, path, self.model, self.response, media_type, openapi_extra=extra, **options)

    def _invalid(self, error: ValidationError) -> ServiceError:
        faults: list[Any] = error.errors(include_input=False, include_url=False, include_context=False)
        has_other_form = any(fault["type"] in OTHER_FORM and len(fault["loc"]) < 2 for fault in faults)
        for fault in faults:  # the key of an unknown field, or of a dict, is the client's own word
            fault["loc"] = ["*" if isinstance(part, str) and part not in self._names else part for part in fault["loc"]]
        return invalid_request(named_faults(faults), FORM if has_other_form else "")


def document(
    app: FastAPI, path: str, body: Any, answer: Any, media_type: str, *, name: str = "predict", **options: Any
) -> None:
    """Add a path to the router and the OpenAPI document; PredictMiddleware answers it.

    Each protocol has its own media type for errors.
    """

    async def endpoint(body: Any) -> None: ...

    endpoint.__annotations__["body"] = body
    problem: dict[str, Any] = {"model": Problem} if media_type == PLAIN else AS_PROBLEM
    app.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        name=name,
        description="Predict one or many inputs.",
        response_model=answer,
        response_description="The predictions",
        responses={status: {"description": text, **problem} for status, text in PROBLEMS.items()},
        **options,
    )


def named_faults(faults: list[Any]) -> list[dict[str, str]]:
    """Return field and reason of faults of pydantic, without a name that the client made up."""
    found = []
    for fault in faults[:20]:
        unknown = fault["type"] == "extra_forbidden"
        place = fault["loc"][:-1] if unknown else fault["loc"]
        reason = "unknown field" if unknown else unrepeated(fault)
        found.append({"field": ".".join(map(str, place)) or "body", "reason": reason})
    return found


def to_json(value: Any) -> bytes:
    """JSON of plain values and outputs; PydanticSerializationError for what JSON does not have."""
    return pydantic_core.to_json(value, inf_nan_mode="null", bytes_mode="base64")
