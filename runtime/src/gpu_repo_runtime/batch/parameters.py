"""The owner's ``Parameters``, from options of the form NAME=VALUE."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..interface import Interface
from ..owntypes import sentence, shown
from .exits import BadConfiguration


def parameters_of(interface: Interface, options: Sequence[str]) -> Any:
    """Return an object of the owner's class, None for a model without parameters. Raises BadConfiguration.

    A value is what it would be in JSON where it fits so, else a text.
    """
    if interface.parameters is None:
        if options:
            raise BadConfiguration(f"--parameter {options[0]}: the model has no class Parameters")
        return None
    adapter: TypeAdapter[Any] = TypeAdapter(interface.parameters)
    names = list(adapter.json_schema(mode="validation").get("properties", {}))
    values: dict[str, Any] = {}
    for option in options:
        name, mark, value = option.partition("=")
        if not mark:
            raise BadConfiguration(f"--parameter {option}: write NAME=VALUE")
        if names and name not in names:
            raise BadConfiguration(f"--parameter {option}: {shown(interface.parameters)} has {', '.join(names)}")
        if name in values:
            raise BadConfiguration(f"--parameter {name} appears twice")
        values[name] = value
    for readings in (values, {name: _as_json(value) for name, value in values.items()}):
        try:
            return adapter.validate_json(json.dumps(readings))
        except ValidationError as error:
            fault = error
    raise BadConfiguration(f"--parameter {sentence(fault)}")


def as_json(parameters: Any) -> Any:
    """Return the parameters as the plan has them."""
    return None if parameters is None else TypeAdapter(type(parameters)).dump_python(parameters, mode="json")


def _as_json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
