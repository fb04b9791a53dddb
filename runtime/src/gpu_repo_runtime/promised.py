"""What the JSON schema of an ``Output`` promises of ``null``, held to the JSON that is sent.

A number that is not finite is written as null, and so is None where pydantic did not look: a reader that was made from
the schema expects null only where the schema has it.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
# Words that say what kind of value it is; without one of them anything goes.
KINDS = {"type", "enum", "const", "allOf", "not"}


class Nulls:
    """Finds the nulls in JSON that a schema does not have. What the schema says nothing of is let through."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._definitions = schema, schema.get("$defs", {})

    def unpromised(self, value: Any) -> tuple[str | int, ...] | None:
        """Return the place of the first null that the schema does not have."""
        return next(self._found(value, [self._schema], ()), None)

    def _found(self, value: Any, schemas: list[Any], place: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
        branches = [branch for schema in schemas for branch in self._branches(schema)]
        if not all(KINDS & branch.keys() for branch in branches):
            return
        if value is None:
            if branches and not any(map(_has_null, branches)):
                yield place
        elif isinstance(value, dict):
            objects = [branch for branch in branches if branch.get("type") == "object"]
            for name, part in value.items():
                yield from self._found(part, [_of_property(branch, name) for branch in objects], (*place, name))
        elif isinstance(value, list):
            arrays = [branch for branch in branches if branch.get("type") == "array"]
            for index, part in enumerate(value):
                yield from self._found(part, [_of_item(branch, index) for branch in arrays], (*place, index))

    def _branches(self, schema: Any) -> Iterator[Schema]:
        """Return what a value may be by a schema: references are followed, alternatives taken one by one."""
        if isinstance(schema, bool):
            yield from [{}] * schema
        elif "$ref" in schema:
            yield from self._branches(self._definitions.get(schema["$ref"].rpartition("/")[2], {}))
        elif among := schema.get("anyOf") or schema.get("oneOf"):
            for one in among:
                yield from self._branches(one)
        else:
            yield schema


def _has_null(schema: Schema) -> bool:
    kinds = schema.get("type", [])
    values = schema.get("enum", [schema.get("const", 0)])
    return "null" in ([kinds] if isinstance(kinds, str) else kinds) or None in values


def _of_property(schema: Schema, name: str) -> Any:
    return schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))


def _of_item(schema: Schema, index: int) -> Any:
    first = schema.get("prefixItems", ())
    return first[index] if index < len(first) else schema.get("items", {})
