"""What an owner's model imports: types of fields that pydantic does not have, and the error of an invalid input."""

import base64
import binascii
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class InvalidInput(ValueError):
    """Raise it in ``predict`` for an input that the client has to change, for example an image that cannot be decoded.

    The service answers that request with 422 and the message, the other requests of the batch get their predictions,
    and the batch job puts the row aside with the message. The message reaches the client: write no data of others.
    """


class _Base64:
    """bytes in Python; in JSON a string in base64, or ``{"b64": "..."}`` as TensorFlow Serving writes it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from_json = core_schema.no_info_before_validator_function(_decoded, core_schema.bytes_schema())
        return core_schema.json_or_python_schema(
            json_schema=from_json,
            python_schema=core_schema.no_info_before_validator_function(_from_table, core_schema.bytes_schema()),
            serialization=core_schema.plain_serializer_function_ser_schema(
                _encoded, return_schema=core_schema.str_schema(), when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "format": "byte", "contentEncoding": "base64"}


def _from_table(value: Any) -> Any:
    """A text is base64 wherever it comes from, and never taken for the bytes of its characters."""
    return _decoded(value) if isinstance(value, str) else value


def _decoded(value: Any) -> bytes:
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


Bytes = Annotated[bytes, _Base64()]
