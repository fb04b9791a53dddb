"""What ``/predict`` takes and gives, and how errors look; all of it appears in ``/docs``."""

from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, create_model

from ..interface import Interface
from ..owntypes import names_in, unrepeated
from .errors import InvalidRequest
from .settings import Settings

STRICT = ConfigDict(extra="forbid", strict=True)
# The media types of errors: clients of /v1 and /v2 look for one only in what is called plain JSON.
COLUMNS = (("inputs",),)  # TensorFlow Serving's other form of a request
PROBLEM, PLAIN = "application/problem+json", "application/json"


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
    """A request for predictions; ``parameters`` is None where it names none, ``name`` what it calls its inputs."""

    inputs: list[Any]
    parameters: Any
    name: str = "instances"


class PredictRequest:
    """The bodies that predictions are asked with, under the limits of ``settings``.

    ``{"instances": [...], "parameters": {...}}``, and for a model of texts ``{"texts": [...]}`` as in version 0.2.
    """

    def __init__(self, settings: Settings, interface: Interface) -> None:
        self._interface = interface
        examples = interface.examples()
        one: Any = interface.input
        if interface.is_text:
            one = Annotated[one, StringConstraints(min_length=1, max_length=settings.max_text_chars)]
            examples = [text for text in examples if text]
        as_json = [interface.as_asked(example) for example in examples]
        self.example = {"instances": as_json[: settings.max_texts]}
        many = Field(min_length=1, max_length=settings.max_texts, description="The inputs to predict, one or many")
        instances: Any = Annotated[GenericAlias(list, (one,)), many]
        self.many: TypeAdapter[list[Any]] = TypeAdapter(instances)
        fields: dict[str, Any] = {
            "instances": (Annotated[list[one], many], ...),
            "signature_name": (
                Annotated[Literal["serving_default"] | None, Field(description="As TensorFlow Serving has it")],
                None,
            ),
        }
        if interface.parameters is not None:
            fields["parameters"] = (interface.parameters | None, None)
        else:
            fields["parameters"] = (Annotated[_NoParameters | None, Field(description="This model has none")], None)
        self.model = create_model("PredictRequest", __config__=STRICT, **fields)
        self.response = create_model(
            "PredictResponse",
            __doc__="One prediction for each input, in the order of the request. "
            "A number that is not finite comes as null where the type has null; else it is an error.",
            predictions=(list[interface.output], ...),  # type: ignore[name-defined]
        )
        self.texts_model = self._texts(one, many) if interface.is_text else None
        self._now: TypeAdapter[Any] = TypeAdapter(self.model)
        self._before: TypeAdapter[Any] | None = TypeAdapter(self.texts_model) if self.texts_model else None
        self._names = frozenset(names_in(self._now.json_schema())) | {"texts", "inputs", "instances", "parameters"}

    def _texts(self, text: Any, many: Any) -> type[BaseModel]:
        config: ConfigDict = {**STRICT, "json_schema_extra": {"deprecated": True}}
        texts: Any = (Annotated[GenericAlias(list, (text,)), many], ...)
        about = "As version 0.2 was asked. Deprecated: write instances in place of texts."
        return create_model("TextsRequest", __config__=config, __doc__=about, texts=texts)

    def read(self, body: bytes) -> Asked:
        """What a JSON body asks. InvalidRequest names the fields that are wrong and repeats nothing of the body."""
        before = self._before
        try:
            if before is not None and b'"texts"' in body[:16]:
                return Asked(before.validate_json(body).texts, None, "texts")
            asked = self._now.validate_json(body)
            return Asked(asked.instances, None if self._interface.parameters is None else asked.parameters)
        except ValidationError as error:
            faults = _faults(error)
        if before is not None and any(map(self._about_texts, faults)):
            try:
                return Asked(before.validate_json(body).texts, None, "texts")
            except ValidationError as error:
                faults = _faults(error)
        raise self.invalid(faults)

    def _about_texts(self, fault: Any) -> bool:
        # A client who names neither is told about texts by a model of version 0.2, as then.
        missing = fault["loc"] == ("instances",) and fault["type"] == "missing"
        return fault["loc"] == ("texts",) or (self._interface.dated and missing)

    def read_one(self, body: bytes) -> Asked:
        """The input whose field of bytes is the body. Raises InvalidRequest."""
        assert self._interface.blob
        return self.read_python([{self._interface.blob: body}], {})

    def read_python(self, inputs: list[Any], parameters: dict[str, Any], name: str = "instances") -> Asked:
        """What inputs and parameters that were not JSON ask. Raises InvalidRequest."""
        own: Any = self._interface.parameters or _NoParameters
        given = self._held(TypeAdapter(own), parameters, "parameters") if parameters else None
        return Asked(self._held(self.many, inputs, name), given, name)

    def _held(self, type_: TypeAdapter[Any], value: Any, place: str) -> Any:
        try:
            # A tensor has the name of its field, which may have another one in JSON.
            return type_.validate_python(value, by_alias=True, by_name=True)
        except ValidationError as error:
            faults = _faults(error)
        raise self.invalid([{**fault, "loc": (place, *fault["loc"])} for fault in faults])

    def invalid(self, faults: list[Any]) -> InvalidRequest:
        """Return the error that names these faults of pydantic, in the words of the schema alone."""
        if any(fault["loc"] in COLUMNS and fault["type"] == "extra_forbidden" for fault in faults):
            faults = [{"loc": ("inputs",), "type": "columns", "msg": "columns are not supported, send instances"}]
        named = [{"field": self._place(fault), "reason": reason_of(fault)} for fault in faults[:20]]
        return InvalidRequest("; ".join(f"{one['field']}: {one['reason']}" for one in named[:3]), errors=named)

    def _place(self, fault: Any) -> str:
        # The key of an unknown field, or of a dict, is the client's own word.
        place = fault["loc"]
        if fault["type"] == "extra_forbidden" and place not in COLUMNS:
            place = place[:-1]
        known = ("*" if isinstance(part, str) and part not in self._names else str(part) for part in place)
        return ".".join(known) or "body"


class _NoParameters(BaseModel):
    """This model takes no parameters."""

    model_config = ConfigDict(extra="forbid", title="NoParameters")


def to_json(value: Any) -> bytes:
    """JSON of plain values and outputs; PydanticSerializationError for what JSON does not have."""
    return pydantic_core.to_json(value, inf_nan_mode="null", bytes_mode="base64")


def _faults(error: ValidationError) -> list[Any]:
    return error.errors(include_input=False, include_url=False, include_context=False)


def reason_of(fault: Any) -> str:
    """Return why a field is wrong, without a name that the client made up."""
    return "unknown field" if fault["type"] == "extra_forbidden" else unrepeated(fault)
