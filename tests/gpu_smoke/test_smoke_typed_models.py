"""The layer of the model calls a model as a job or a service does: with its Input, and its Parameters."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_smoke.layers import model

from tests.runtime import kinds


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_models_that_say_their_types_are_answered(kind: str) -> None:
    own = kinds.model(kinds.KINDS[kind], f"smoked_{kind}")
    own.load("cpu")
    found = model.predictions(own, list(own.examples))
    assert len(found) == len(own.examples)
    assert model.differences(found, model.predictions(own, list(own.examples)), 0.0) == []


def test_a_field_of_an_answer_is_compared_by_the_tolerance() -> None:
    own = kinds.model(kinds.DOCUMENT, "smoked_twice")
    own.load("cpu")
    found = model.predictions(own, list(own.examples))
    other = [found[0] | {"total": found[0]["total"] + 0.01}, *found[1:]]
    assert model.differences(found, other, 0.1) == []
    assert len(model.differences(found, other, 0.001)) == 1


def test_a_model_without_types_gets_its_examples() -> None:
    class Untyped:
        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Any]) -> list[Any]:
            return [{"length": len(one)} for one in batch]

    assert model.predictions(Untyped(), ["a", "bb"]) == [{"length": 1}, {"length": 2}]
