"""What ``/predict`` takes and gives, and how errors look; all of it appears in ``/docs``."""

from typing import Annotated, Any

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, create_model

from .errors import InvalidRequest
from .settings import Settings

Value = str | int | float | bool | list[float] | None


class PredictResponse(BaseModel):
    """One prediction for each text, in the order of the request. A number that is not finite comes as null."""

    predictions: list[dict[str, Value]]


class Problem(BaseModel):
    """An error after RFC 9457; ``code`` is for programs, ``errors`` names the fields that are wrong."""

    title: str
    status: int
    code: str
    detail: str
    request_id: str
    errors: list[dict[str, str]] | None = None


class Health(BaseModel):
    """State of the service and what runs here."""

    status: str
    reason: str
    version: str
    image: str
    device: str


class PredictRequest:
    """The body of ``/predict`` under the limits of ``settings``: ``{"texts": ["one", "two"]}``."""

    def __init__(self, settings: Settings, examples: list[str]) -> None:
        text = Annotated[str, StringConstraints(min_length=1, max_length=settings.max_text_chars)]
        texts = Field(
            min_length=1,
            max_length=settings.max_texts,
            description="The texts to predict, one or many",
            examples=[[example for example in examples if example][: settings.max_texts]],
        )
        self.model = create_model(
            "PredictRequest",
            __config__=ConfigDict(extra="forbid", strict=True),
            texts=(Annotated[list[text], texts], ...),
        )
        self._adapter: TypeAdapter[Any] = TypeAdapter(self.model)

    def texts(self, body: bytes) -> list[str]:
        """The texts in a JSON body. InvalidRequest names the fields that are wrong and repeats nothing of the body."""
        try:
            texts: list[str] = self._adapter.validate_json(body).texts
            return texts
        except ValidationError as error:
            faults = error.errors(include_input=False, include_url=False, include_context=False)
        raise InvalidRequest("; ".join(map(_sentence, faults[:3])), errors=[_fault(fault) for fault in faults[:20]])


def to_json(value: Any) -> bytes:
    """JSON of plain values; PydanticSerializationError for what JSON does not have, such as a NumPy number."""
    return pydantic_core.to_json(value, inf_nan_mode="null")


def _fault(fault: Any) -> dict[str, str]:
    if fault["type"] == "extra_forbidden":  # its place is the client's own word
        return {"field": "body", "reason": "There is a field other than texts"}
    return {"field": ".".join(map(str, fault["loc"])) or "body", "reason": fault["msg"]}


def _sentence(fault: Any) -> str:
    return "{field}: {reason}".format(**_fault(fault))
