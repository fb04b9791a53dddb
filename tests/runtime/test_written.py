"""What is sent of an answer: what its type says, whatever the objects in it are."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gpu_repo_runtime.interface import Interface, WrongAnswer
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.settings import Settings
from gpu_repo_runtime.serving.startup import check

from tests.runtime.kinds import model

HEADER = "inference-header-content-length"
SOURCE = """
    import dataclasses
    from typing import Annotated, Any
    from typing_extensions import TypedDict
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


    class Typed(TypedDict):
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
    "a list of bytes": ("list[Bytes]", f"[{RAW}]", ["//8="]),
    "a dict of bytes": ("dict[str, Bytes]", f"{{'raw': {RAW}}}", {"raw": "//8="}),
    "bytes or nothing": ("Bytes | None", RAW, "//8="),
    "bytes of a dataclass": ("Data", f"Data({RAW})", {"raw": "//8="}),
    "bytes of a TypedDict": ("Typed", f"Typed(raw={RAW})", {"raw": "//8="}),
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


def serve(output: str, answer: str) -> TestClient:
    return TestClient(create_app(model(source(output, answer)), Settings(device="cpu")))


def test_an_answer_is_written_by_its_type_for_every_reader() -> None:
    for case in WRITTEN:
        output, answer, expected = WRITTEN[case]
        with serve(output, answer) as client:
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


def test_bytes_in_binary_tensors_are_the_bytes_and_both_alphabets_of_base64_are_read() -> None:
    with serve("Bytes", RAW) as client:
        tensor = {"name": "x", "shape": [1], "datatype": "BYTES", "data": ["one"]}
        asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
        answer = client.post("/v2/models/kind/infer", json=asked)
        assert answer.content[int(answer.headers[HEADER]) :] == struct.pack("<I", 2) + b"\xff\xff"
    echo = source("Bytes", "text").replace("Input = str", "Input = Bytes").replace('("one",)', '(b"one",)')
    echo = echo.replace('if text == "one" else self.says', "")
    with TestClient(create_app(model(echo), Settings(device="cpu"))) as client:
        for text in ("__8=", "//8="):
            tensor = {"name": "x", "shape": [1], "datatype": "BYTES", "data": [text]}
            [output] = client.post("/v2/models/kind/infer", json={"inputs": [tensor]}).json()["outputs"]
            assert base64.b64decode(output["data"][0], validate=True) == b"\xff\xff"


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
    "a serializer that raises": (
        "Annotated[float, PlainSerializer(lambda x: 1 / 0, float)]",
        "1.0",
        "which is not an Output",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_output_is_an_error_for_its_input_and_refused_of_an_example(case: str) -> None:
    output, answer, words = WRONG[case]
    one = model(source(output, answer))
    with pytest.raises(StartRefused) as refused:
        check(Interface(one), ["one"])
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)
    good = {
        "A": "A(a=1)",
        "str": "'x'",
        "Loose": "Loose()",
        "list[float]": "[1.0]",
        "Any": "1",
    }.get(output, "1.0")
    if case == "a serializer that raises":
        return
    one = model(source(output, good))
    one.says = eval(answer, vars(__import__("sys").modules["kind.model"]))
    with TestClient(create_app(one, Settings(device="cpu"))) as client:
        answered = client.post("/predict", json={"instances": ["one", "two", "one"]})
        assert (answered.status_code, answered.json()["code"]) == (500, "prediction_failed"), answered.text
        [fault] = answered.json()["errors"]
        assert fault["field"] == "instances.1"
        assert words in fault["reason"]
        assert "secret" not in answered.text
        assert client.post("/predict", json={"instances": ["one"]}).status_code == 200


def test_an_object_that_was_changed_after_it_was_made_is_held_to_its_types() -> None:
    interface = Interface(model(source("A", "A(a=1)")))
    [one] = interface.checked([{"a": 1}])
    one.a = "secret"
    with pytest.raises(WrongAnswer) as wrong:
        interface.json([interface.checked([{"a": 1}])[0], one])
    assert (wrong.value.index, "secret" in str(wrong.value)) == (1, False)
    with pytest.raises(WrongAnswer):
        interface.plain([one])


V2 = {"name": "x", "shape": [1], "datatype": "FP64", "data": [1]}


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        ({"datatype": "INT8", "data": [300]}, "holds a number that is not INT8"),
        ({"datatype": "UINT8", "data": [-1]}, "holds a number that is not UINT8"),
        ({"datatype": "INT32", "data": [1.5]}, "holds a number that is not INT32"),
        ({"datatype": "FP16", "data": [1e9]}, "holds a number that is not FP16"),
        ({"datatype": "UINT64", "data": [2**64]}, "holds a number that is not UINT64"),
        ({"shape": [1.0]}, "inputs.0.shape.0"),
        ({"shape": [True]}, "inputs.0.shape.0"),
    ],
    ids=str,
)
def test_a_tensor_holds_only_what_its_type_has(tensor: dict[str, Any], words: str) -> None:
    numbers = source("float", "text").replace("Input = str", "Input = float").replace('("one",)', "(1.0,)")
    numbers = numbers.replace('if text == "one" else self.says', "")
    with TestClient(create_app(model(numbers), Settings(device="cpu"))) as client:
        assert client.post("/v2/models/kind/infer", json={"inputs": [V2]}).status_code == 200
        answer = client.post("/v2/models/kind/infer", json={"inputs": [{**V2, **tensor}]})
        assert (answer.status_code, words in answer.json()["error"]) == (400, True), answer.text
        twice = client.post("/v2/models/kind/infer", json={"inputs": [V2, {**V2, "data": [2]}]})
        assert (twice.status_code, "given twice" in twice.json()["error"]) == (400, True), twice.text
        infinite = json.dumps({"inputs": [{**V2, "data": [float("inf")]}]})
        refused = client.post("/v2/models/kind/infer", content=infinite)
        assert (refused.status_code, "ask for binary_data" in refused.json()["error"]) == (400, True), refused.text
        asked = {"inputs": [{**V2, "data": [float("inf")]}], "parameters": {"binary_data_output": True}}
        binary = client.post("/v2/models/kind/infer", content=json.dumps(asked))
        assert binary.content.endswith(struct.pack("<d", float("inf")))


RAGGED = """
    from pydantic import BaseModel

    Input = list[float]


    class Output(BaseModel):
        found: list[float]


    class Model:
        examples, tolerance = ([1.0],), 0.0

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [Output(found=[row[0]] * int(row[0])) for row in batch]
"""


def test_lists_of_different_lengths_are_refused_even_where_their_sum_is_right() -> None:
    """Three rows of 2, 3 and 1 numbers are not three of two, although both have six."""
    with TestClient(create_app(model(RAGGED), Settings(device="cpu"))) as client:

        def infer(shape: list[int], data: list[Any]) -> Any:
            tensor = {"name": "input", "shape": shape, "datatype": "FP64", "data": data}
            return client.post("/v2/models/kind/infer", json={"inputs": [tensor]})

        assert infer([3, 1], [2, 2, 2]).json()["outputs"][0]["shape"] == [3, 2]
        ragged = infer([3, 1], [2, 3, 1])
        assert (ragged.status_code, "of different lengths" in ragged.json()["error"]) == (400, True), ragged.text
        for data in ([[1, 2, 3], [4]], [1, [2, 3], 4], [[1, [2, 3]], [[], 4]], [[1, 2]], [[[1, 2]], [[3, 4]]]):
            wrong = infer([2, 2], data)
            assert (wrong.status_code, "[2, 2]" in wrong.json()["error"]) == (400, True), f"{data}: {wrong.text}"


FIELDS = """
    from pydantic import BaseModel, Field, computed_field

    Input = float


    class Box(BaseModel):
        x: float


    class Output(BaseModel):
        score: float
        box: Box
        more: dict[str, int] = {}
        secret: str = Field(default="", exclude=True)

        @computed_field
        @property
        def twice(self) -> float:
            return 2 * self.score


    class Model:
        examples, tolerance = (1.0,), 0.0

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [Output(score=one, box=Box(x=one), more={"a": 1}) for one in batch]
"""


def test_every_field_of_an_output_has_its_tensor_and_what_is_none_is_json_in_it() -> None:
    with TestClient(create_app(model(FIELDS), Settings(device="cpu"))) as client:
        about = {one["name"]: one["datatype"] for one in client.get("/v2/models/kind").json()["outputs"]}
        assert about == {"score": "FP64", "box": "BYTES", "more": "BYTES", "twice": "FP64"}
        answer = client.post("/v2/models/kind/infer", json={"inputs": [{**V2, "shape": [2], "data": [1, 2]}]}).json()
        found = {one["name"]: one["data"] for one in answer["outputs"]}
        assert found == {"score": [1, 2], "box": ['{"x":1.0}', '{"x":2.0}'], "more": ['{"a":1}'] * 2, "twice": [2, 4]}
