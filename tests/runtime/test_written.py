"""What is sent of an answer: what its type says, whatever the objects in it are."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from gpu_repo_runtime.interface import Interface
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.startup import check

from tests.runtime.kinds import model
from tests.runtime.served import serve

SOURCE = """
    import dataclasses
    from typing import Annotated, Any
    from pydantic import BaseModel, Field, PlainSerializer, field_serializer
    from gpu_repo_runtime.inputs import Bytes


    class A(BaseModel):
        a: int


    class B(A):
        secret: int = 2


    class Rounded(BaseModel):
        x: float

        @field_serializer("x")
        def _rounded(self, x) -> float:
            return round(x, 2)


    class Named(BaseModel):
        x: float = Field(alias="X")


    class Loose(BaseModel):
        x: float | None = None
        n: float = 0.0
        some: dict[str, float] = {{}}
        pairs: list[tuple[float, float | None]] = []


    @dataclasses.dataclass
    class Data:
        raw: Bytes


    Input = str
    Output = {output}


    class Model:
        examples = ("one",)
        says = None

        def load(self, device): ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [{answer} if text == "one" else self.says for text in batch]
"""
RAW = 'b"\\xff\\xff"'
# The type, an answer, what is sent of it.
WRITTEN: dict[str, tuple[str, str, Any]] = {
    "bytes": ("Bytes", RAW, "//8="),
    "bytes or nothing": ("Bytes | None", RAW, "//8="),
    "bytes of a dataclass": ("Data", f"Data({RAW})", {"raw": "//8="}),
    "a serializer of the root": ("Annotated[float, PlainSerializer(lambda x: round(x, 2), float)]", "1 / 3", 0.33),
    "a serializer of a field": ("Rounded", "Rounded(x=1 / 3)", {"x": 0.33}),
    "a subclass": ("A", "B(a=1)", {"a": 1}),
    "a subclass inside": ("list[A]", "[B(a=1)]", [{"a": 1}]),
    "an alias": ("Named", "Named(X=1)", {"X": 1.0}),
    "no number where there may be none": (
        "Loose",
        "Loose(x=float('nan'))",
        {"x": None, "n": 0, "some": {}, "pairs": []},
    ),
    "anything": ("Any", "{'x': [None, float('nan')]}", {"x": [None, None]}),
}


def source(output: str, answer: str) -> str:
    return SOURCE.format(output=output, answer=answer)


def test_an_answer_is_written_by_its_type_for_every_reader() -> None:
    for case in WRITTEN:
        output, answer, expected = WRITTEN[case]
        with serve(source(output, answer)) as client:
            assert client.post("/predict", json={"instances": ["one"]}).json() == {"predictions": [expected]}, case
            tensor = {"name": "x", "shape": [1], "datatype": "BYTES", "data": ["one"]}
            found = client.post("/v2/models/kind/infer", json={"inputs": [tensor]})
            if case == "no number where there may be none":
                assert (found.status_code, "finite" in found.text or "none" in found.text) == (400, True), case
            else:
                [sent] = found.json()["outputs"]
                flat = sent["data"] if isinstance(sent["data"], list) else [sent["data"]]
                values = list(expected.values()) if isinstance(expected, dict) else expected
                assert flat in ([expected], values, [json.dumps(expected, separators=(",", ":"))]), case
        if case != "anything" and "no number" not in case:
            assert Interface(model(source(output, answer))).answers(["one"]) == [expected], case


# The type, an answer that is none of it, words of the error.
WRONG: dict[str, tuple[str, str, str]] = {
    "made without validation": ("A", "A.model_construct(a='secret')", "A, which is not an Output: Expected `int` in a"),
    "made with None": ("A", "A.model_construct(a=None)", "A at a, which is not an Output: None or a number"),
    "not finite": ("float", "float('-inf')", "float, which is not an Output: None or a number that is not finite"),
    "not finite inside": ("Loose", "Loose(n=float('nan'))", "Loose at n,"),
    "not finite in a dict": ("Loose", "Loose(some={'k': float('inf')})", "Loose at some.*,"),
    "not finite in a list": ("list[float]", "[0.0, float('nan')]", "list at 1,"),
    "not finite in a pair": ("Loose", "Loose(pairs=[(float('nan'), None)])", "Loose at pairs.0.0,"),
    "half a character": ("str", "'\\ud800'", "which is not an Output"),
    "an object": ("Any", "object()", "unknown type: <class 'object'>"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_output_is_an_error_for_its_input_and_refused_of_an_example(case: str) -> None:
    output, answer, words = WRONG[case]
    one = model(source(output, answer))
    with pytest.raises(StartRefused) as refused:
        check(Interface(one), ["one"])
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)
    good = {"A": "A(a=1)", "str": "'x'", "Loose": "Loose()", "list[float]": "[1.0]", "Any": "1"}
    one = model(source(output, good.get(output, "1.0")))
    one.says = eval(answer, vars(sys.modules["kind.model"]))
    with serve(one) as client:
        answered = client.post("/predict", json={"instances": ["one", "two", "one"]})
        assert (answered.status_code, answered.json()["code"]) == (500, "prediction_failed"), answered.text
        [fault] = answered.json()["errors"]
        assert fault["field"] == "instances.1"
        assert words in fault["reason"]
        assert "secret" not in answered.text
        assert client.post("/predict", json={"instances": ["one"]}).status_code == 200
