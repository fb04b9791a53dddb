"""What an owner's model imports: types of fields that pydantic does not have, and the error of an invalid input."""

import base64
import binascii
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError


class InvalidInput(ValueError):
    """Raise it in ``predict`` for an input that the client has to change, for example an image that cannot be decoded.

    The service answers that request with 422 and the message, the other requests of the batch get their predictions,
    and the batch job puts the row aside with the message. The message reaches the client: write no data of others.
    """


def _decoded(value: Any) -> Any:
    """Return bytes as they are. A text is base64, wherever it comes from, and never the bytes of its characters."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict) and value.keys() == {"b64"}:
        value = value["b64"]
    if not isinstance(value, str):
        raise PydanticCustomError("base64", "Input should be a string in base64")
    try:
        return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise PydanticCustomError("base64", "Input should be base64") from None


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


# bytes in Python; in JSON a string in base64, or {"b64": "..."} as TensorFlow Serving writes it.
Bytes = Annotated[
    bytes,
    BeforeValidator(_decoded),
    PlainSerializer(_encoded, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "byte", "contentEncoding": "base64"}),
]
