"""Inputs and outputs of kinds that are seldom: what is said of a wrong one, and what they are as tensors."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from gpu_repo_runtime.interface import Interface, WrongAnswer
from gpu_repo_runtime.serving.app import create_app

from tests.runtime.kinds import model
from tests.runtime.owners import Settings

SECRET = "zecret"
SOURCE = """
    import datetime
    import uuid
    from typing import Annotated, Literal

    from pydantic import AnyUrl, BaseModel, Field, RootModel


    class Cat(BaseModel):
        kind: Literal["cat"]


    class Dog(BaseModel):
        kind: Literal["dog"]


    class Row(RootModel[list[float]]): ...


    class Line(BaseModel):
        price: float


    class Lines(RootModel[Line]): ...


    Input = {input}
    Output = {output}


    class Model:
        examples = ({example},)
        tolerance = 0.0

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [{answer} for one in batch]
"""


def made(input_: str, example: str, output: str = "int", answer: str = "1") -> Any:
    return model(SOURCE.format(input=input_, example=example, output=output, answer=answer))


WRONG = [
    ("Annotated[Cat | Dog, Field(discriminator='kind')]", "Cat(kind='cat')", {"kind": SECRET}, "one of 'cat', 'dog'"),
    ("uuid.UUID", "uuid.UUID(int=1)", SECRET, "valid UUID"),
    ("AnyUrl", "AnyUrl('http://x')", SECRET, "valid URL"),
]


def test_what_is_said_of_a_wrong_input_holds_no_part_of_it() -> None:
    for input_, example, wrong, reason in WRONG:
        with TestClient(create_app(made(input_, example), Settings(device="cpu"))) as client:
            answer = client.post("/predict", json={"instances": [wrong]})
        told = answer.json()["errors"][0]["reason"]
        assert (answer.status_code, reason in told) == (422, True), told
        assert not any(part in told.replace("valid UUID", "") for part in (SECRET, "`z`")), told


def test_what_is_said_of_a_wrong_answer_holds_no_key_of_it() -> None:
    """The words of a client are the keys where a model counts them."""
    interface = Interface(made("str", "'a'", "dict[str, float]", "{one: 'x'}"))
    with pytest.raises(WrongAnswer, match=r"dict at \*, which is not an Output") as error:
        interface.checked(interface.call([SECRET]))
    assert SECRET not in str(error.value)
