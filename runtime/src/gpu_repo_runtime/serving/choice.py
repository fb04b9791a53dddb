"""The parameters of a request, as what decides which inputs share a call of the model."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, eq=False)
class Choice:
    """Two are equal where the owner's code cannot tell them apart.

    So 1, 1.0 and true are not equal, and what was given is not what a default says: ``model_dump(exclude_unset=True)``
    tells these apart.
    """

    parameters: Any

    def __hash__(self) -> int:
        return hash(repr(self.parameters))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and alike(self.parameters, other.parameters)


def alike(one: Any, other: Any) -> bool:
    """Whether two values are of the same types and equal, all the way down."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, BaseModel):
        return one == other and alike(_parts(one), _parts(other))
    if isinstance(one, dict):
        return len(one) == len(other) and alike([*one.items()], [*other.items()])
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) and repr(one) == repr(other) and alike(_state(one), _state(other))


def _parts(model: BaseModel) -> tuple[Any, ...]:
    return vars(model), model.model_extra, model.__pydantic_private__, sorted(model.model_fields_set)


def _state(value: Any) -> Any:
    return getattr(value, "__dict__", None)
