"""What an owner's types say of themselves: annotations, fields of bytes, and how they and their faults are named."""

import collections.abc
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel, ValidationError

from .contract import ContractError


class Annotations:
    """What ``predict`` says of itself; ``arguments`` is 1, or 2 with parameters.

    ``table`` is what it says of its batch, ``batch`` and ``answers`` are the types of items, if these are lists.
    """

    def __init__(self, predict: Callable[..., Any], file: str) -> None:
        taken = [
            name
            for name, parameter in inspect.signature(predict).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            and (parameter.default is parameter.empty or name == "parameters")
        ]
        if len(taken) not in (1, 2):
            raise ContractError(
                f"{file}: predict takes {', '.join(taken) or 'nothing'}: "
                "write def predict(self, batch: list[Input], parameters: Parameters), or without parameters"
            )
        self.arguments = len(taken)
        try:
            hints = typing.get_type_hints(inspect.unwrap(predict), include_extras=True)
        except Exception:  # names that exist only for a type checker
            hints = {}
        self.table = hints.get(taken[0])
        self.batch, self.answers = _item(self.table), _item(hints.get("return"))
        self.parameters = hints.get(taken[1]) if self.arguments == 2 else None


def _item(hint: Any) -> Any:
    """Return ``X`` of ``list[X]`` or ``Sequence[X]``, else None."""
    if typing.get_origin(hint) in (list, collections.abc.Sequence):
        return typing.get_args(hint)[0]
    return None


def is_class(type_: Any, base: Any = BaseModel) -> bool:
    """Tell whether a type is a class of a kind, a pydantic model."""
    return isinstance(type_, type) and issubclass(type_, base)


def only_bytes_field(type_: Any) -> str | None:
    """Return the one field of bytes of a pydantic model whose other fields all have defaults."""
    if not is_class(type_):
        return None
    fields = type_.model_fields
    found = [name for name, field in fields.items() if field.annotation is bytes]
    others = [name for name, field in fields.items() if field.is_required() and name not in found]
    return found[0] if len(found) == 1 and not others else None


def read_name(model: type[BaseModel], name: str) -> str:
    """Return the key that a field is read from: its alias, if it has one."""
    alias = getattr(model.model_fields.get(name), "validation_alias", None)
    among = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((one for one in among if isinstance(one, str)), name)


def sentence(error: ValidationError) -> str:
    """Return one line about the first fault, which repeats nothing of the value."""
    [first, *_] = error.errors(include_input=False, include_url=False, include_context=False)
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {unrepeated(first)}" if place else unrepeated(first)


def unrepeated(fault: Any) -> str:
    """Return the reason of a fault of pydantic without the parts of the value that some of them hold."""
    words: str = fault["msg"]
    match fault["type"]:
        case "union_tag_invalid":
            return f"The tag should be one of {words.rpartition('expected tags: ')[2]}"
        case "uuid_parsing" | "url_parsing" | "url_syntax_violation":
            return words.partition(",")[0]
        case "timezone_offset":
            return words.partition(", got")[0]
    return words


def names_in(schema: Any) -> Iterator[str]:
    """All words of a schema; other keys of an object are whoever made the value."""
    if isinstance(schema, str | type):
        yield schema if isinstance(schema, str) else schema.__name__
    elif isinstance(schema, dict | list | tuple | set):
        for part in (*schema, *schema.values()) if isinstance(schema, dict) else schema:
            yield from names_in(part)


def shown(type_: Any) -> str:
    """Return a type as an owner would write it."""
    return type_.__name__ if isinstance(type_, type) and not typing.get_args(type_) else str(type_)
