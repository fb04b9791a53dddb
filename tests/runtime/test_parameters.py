"""The parameters of a request reach its own inputs and no others, whatever the owner's code does with them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gpu_repo_runtime.interface import Interface
from gpu_repo_runtime.serving.service import Service

from tests.runtime.kinds import model
from tests.runtime.served import Settings, serve

GREEDY = """
    from pydantic import BaseModel

    Input = str
    Output = str


    class Parameters(BaseModel):
        words: list[str] = ["a", "b"]


    class Model:
        examples = ("x",)
        tolerance = 0.0

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input], parameters: Parameters) -> list[Output]:
            word = parameters.words.pop()
            if len(batch) > 1 and "bad" in batch:
                raise ValueError("one of them")
            return [f"{text} {word} {len(parameters.words)}" for text in batch]
"""


def test_what_predict_does_to_its_parameters_reaches_no_other_call() -> None:
    """Neither the next request, nor the next batch of a job, nor the halves of a batch that failed."""
    with serve(GREEDY) as client:
        for parameters in ({}, {"parameters": None}, {"parameters": {}}):
            assert client.post("/predict", json={"instances": ["x"]} | parameters).json() == {"predictions": ["x b 1"]}
        body = {"instances": ["x", "bad", "y"], "parameters": {"words": ["c", "d", "e"]}}
        assert client.post("/predict", json=body).json() == {"predictions": ["x e 2", "bad e 2", "y e 2"]}
        wrong = client.post("/predict", json={"instances": ["x"], "parameters": {"words": "x"}})
        assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "parameters.words")
    interface = Interface(model(GREEDY))
    given = interface.held_parameters({"words": ["c"]})
    assert [interface.call(["x"], given), interface.call(["x"], given)] == [["x c 0"]] * 2


TELLS = """
    from pydantic import BaseModel, Field

    Input = str
    Output = str


    class Parameters(BaseModel):
        value: int | bool = Field(default=1, repr=False)


    class Model:
        examples = ("x",)
        tolerance = 0.0

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input], parameters: Parameters) -> list[Output]:
            return [f"{vars(parameters)!r} {sorted(parameters.model_fields_set)}" for _ in batch]
"""


@pytest.mark.parametrize(
    "different", [({"value": 1}, {"value": True}), ({"value": 1}, {"value": 2}), ({}, {"value": 1})]
)
def test_parameters_that_the_owners_code_can_distinguish_share_no_batch(different: tuple[Any, Any]) -> None:
    """Requests that come together get the answers that each gets alone."""
    service = Service(model(TELLS, "tells"), Settings(device="cpu"))
    given = [service.interface.held_parameters(one) for one in different]

    async def answers() -> tuple[list[Any], list[Any]]:
        await service.start()
        alone = [await service.predict(["x"], one) for one in given]
        together = await asyncio.gather(*(service.predict(["x"], one) for one in given * 8))
        service.stop()
        return alone, together

    alone, together = asyncio.run(answers())
    assert together == alone * 8
    assert alone[0] != alone[1]
