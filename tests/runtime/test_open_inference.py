"""The Open Inference Protocol: Triton's own client, tensors of each type in both forms, and what is refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

from tests.runtime.served import app_of, clients_of_kinds, listening, serve

HEADER = "inference-header-content-length"
TENSORS = """
    from gpu_repo_runtime.inputs import Bytes
    from pydantic import BaseModel


    class Input(BaseModel):
        pixels: list[list[float]]
        count: int
        flag: bool
        name: str
        raw: Bytes


    class Parameters(BaseModel):
        times: int = 1


    class Output(BaseModel):
        means: list[float]
        count: int
        flag: bool
        name: str
        raw: Bytes


    class Model:
        examples = (Input(pixels=[[1.0, 2.0], [3.0, 4.0]], count=3, flag=True, name="one", raw=b"\\x00\\xff"),)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input], parameters: Parameters) -> list[Output]:
            return [
                Output(
                    means=[sum(row) / len(row) for row in one.pixels],
                    count=one.count * parameters.times,
                    flag=not one.flag,
                    name=one.name[::-1],
                    raw=one.raw[::-1],
                )
                for one in batch
            ]
"""


@pytest.fixture(scope="module")
def triton() -> Iterator[InferenceServerClient]:
    """Return Triton's client of a service whose model has tensors of each kind."""
    with listening(app_of(TENSORS)) as port, InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client


def texts(*values: object) -> Any:
    return np.array(values, dtype=object)


def tensors(*, binary: bool) -> list[InferInput]:
    """Two inputs of the model as Triton's client has them; in JSON, bytes are base64."""
    given = [
        ("pixels", "FP32", np.arange(12, dtype=np.float32).reshape(2, 3, 2)),
        ("count", "INT64", np.array([1, -2])),
        ("flag", "BOOL", np.array([True, False])),
        ("name", "BYTES", texts("ab", "grün")),
        ("raw", "BYTES", texts(b"\x00\xff\x01", b"") if binary else texts("AP8B", "")),
    ]
    found = []
    for name, datatype, values in given:
        one = InferInput(name, list(values.shape), datatype)
        one.set_data_from_numpy(values, binary_data=binary)
        found.append(one)
    return found


def test_tritons_client_finds_the_service_and_the_tensors_of_its_model(triton: InferenceServerClient) -> None:
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready("kind")
    assert triton.is_model_ready("kind", "1")
    assert not triton.is_model_ready("other")
    assert triton.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    about = triton.get_model_metadata("kind")
    assert (about["name"], about["versions"], about["platform"]) == ("kind", ["1"], "gpu-repo-runtime")
    assert {one["name"]: (one["datatype"], one["shape"]) for one in about["inputs"]} == {
        "pixels": ("FP64", [-1, -1, -1]),
        "count": ("INT64", [-1]),
        "flag": ("BOOL", [-1]),
        "name": ("BYTES", [-1]),
        "raw": ("BYTES", [-1]),
    }


@pytest.mark.parametrize("sent", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("answered", [True, False, None], ids=["as binary", "as json", "as the client likes"])
def test_tritons_client_sends_and_gets_tensors_and_bytes(
    triton: InferenceServerClient, sent: bool, answered: bool | None
) -> None:
    names = ("means", "count", "flag", "name", "raw")
    wanted = None if answered is None else [InferRequestedOutput(name, binary_data=answered) for name in names]
    answer = triton.infer(
        "kind", tensors(binary=sent), outputs=wanted, request_id="7", parameters={"times": 3}, priority=1
    )
    assert answer.get_response()["id"] == "7"
    found = {name: answer.as_numpy(name) for name in names}
    assert found["means"].tolist() == [[0.5, 2.5, 4.5], [6.5, 8.5, 10.5]]
    assert (found["count"].tolist(), found["flag"].tolist()) == ([3, -6], [False, True])
    if answered is False:
        assert (found["name"].tolist(), found["raw"].tolist()) == (["ba", "nürg"], ["Af8A", ""])
    else:
        assert found["name"].tolist() == [b"ba", "nürg".encode()]
        assert found["raw"].tolist() == [b"\x01\xff\x00", b""]


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, TestClient]]:
    """Return a client of a service for each kind, and of one for texts."""
    with clients_of_kinds() as found:
        yield found


def infer(client: TestClient, *inputs: dict[str, Any], name: str = "kind", **more: Any) -> Any:
    return client.post(f"/v2/models/{name}/infer", json={"inputs": inputs, **more})


def test_numbers_come_flat_or_nested_and_of_every_type(clients: dict[str, TestClient]) -> None:
    for data in ([0, 1, 2, 3, 4, 5], [[0, 1], [2, 3], [4, 5]]):
        for datatype in ("FP32", "FP64", "INT64", "UINT8"):
            answer = infer(clients["row"], {"name": "x", "shape": [3, 2], "datatype": datatype, "data": data})
            [output] = answer.json()["outputs"]
            assert output == {"name": "output", "shape": [3], "datatype": "FP64", "data": [3.0, 13.0, 23.0]}


def test_texts_and_images_are_tensors_and_what_is_none_comes_as_json(clients: dict[str, TestClient]) -> None:
    tensor = {"name": "text", "shape": [2, 1], "datatype": "BYTES", "data": ["a", "b"]}
    [output] = infer(clients["text"], tensor, name="standin").json()["outputs"]
    [predicted] = clients["text"].post("/predict", json={"instances": ["a"]}).json()["predictions"]
    assert (output["shape"], json.loads(output["data"][0])) == ([2], predicted)
    text = base64.b64encode(bytes(range(200, 256))).decode()
    images = {"name": "image", "shape": [2], "datatype": "BYTES", "data": [text, text]}
    thresholds = {"name": "threshold", "shape": [2], "datatype": "FP32", "data": [0.5, 1.5]}
    found = infer(clients["image"], images, thresholds, parameters={"top": 2, "timeout": 5}).json()["outputs"]
    assert {one["name"]: one.get("data") for one in found}["labels"] == ["bright", "image", "dark", "image"]
    wanted = infer(clients["image"], images, outputs=[{"name": "bright"}]).json()["outputs"]
    assert [one["name"] for one in wanted] == ["bright"]


ROW = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
IMAGE = {"name": "image", "shape": [1], "datatype": "BYTES", "data": ["aGk="]}
TWO = {"name": "threshold", "shape": [2], "datatype": "FP32", "data": [0.5, 1.5]}
# The kind of model, the tensors, more of the request, words of the answer.
BAD: list[tuple[str, list[dict[str, Any]], dict[str, Any], str]] = [
    ("row", [ROW | {"shape": [2, 2]}], {}, "input has 2 values, and its shape [2, 2] requires 4"),
    ("row", [ROW | {"shape": [1, 2, 2]}], {}, "input has 3 dimensions and should have 2"),
    ("row", [ROW | {"shape": [0, 2]}], {}, "inputs.0.shape.0: Input should be greater than or equal to 1"),
    ("row", [ROW | {"data": [1, "secret"]}], {}, "input holds a str, which is not FP32"),
    ("row", [ROW | {"data": [1, True]}], {}, "input holds a bool, which is not FP32"),
    ("row", [ROW | {"datatype": "BYTES", "data": ["secret", "b"]}], {}, "input is BYTES and should be FP64"),
    ("row", [ROW | {"datatype": "INT8", "data": [300, 1]}], {}, "holds a number that is not INT8"),
    ("row", [ROW | {"datatype": "INT32", "data": [1.5, 1]}], {}, "holds a number that is not INT32"),
    ("row", [ROW | {"data": None}], {}, "input: give data, or parameters.binary_data_size"),
    ("row", [ROW | {"data": None, "parameters": {"binary_data_size": 8}}], {}, "is not a part of the body"),
    ("row", [ROW | {"shape": [9, 1], "data": [1] * 9}], {}, "at most 8"),
    ("row", [ROW], {"parameters": {"other": 1}}, "unknown field"),
    ("row", [ROW], {"outputs": [{"name": "output", "parameters": {"classification": 2}}]}, "classification"),
    ("document", [ROW], {}, "not a tensor, text or bytes: ask POST /predict"),
    ("image", [IMAGE, TWO], {}, "differ in their first dimension"),
    ("image", [IMAGE | {"name": "picture"}, TWO], {}, "none of image, threshold"),
    ("image", [TWO], {}, "inputs.0.image: Field required"),
    ("image", [IMAGE | {"data": ["no base64!"]}], {}, "image is not base64"),
    ("image", [IMAGE, IMAGE], {}, "given twice"),
    ("image", [IMAGE], {"outputs": [{"name": "x"}]}, "no other output than bright, labels"),
    ("image", [IMAGE], {"parameters": {"top": "x"}}, "parameters.top: Input should"),
]


def test_what_does_not_fit_is_refused_with_400_and_one_line(clients: dict[str, TestClient]) -> None:
    for kind, inputs, more, words in BAD:
        answer = infer(clients[kind], *inputs, **more)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json"), words
        assert words in answer.json()["error"], answer.text
        assert "secret" not in answer.text
    assert infer(clients["row"], ROW, name="other").status_code == 404
    for length in ("-1", "x", "99"):
        answer = clients["row"].post("/v2/models/kind/infer", content=b"{}", headers={HEADER: length})
        assert (answer.status_code, "Inference-Header-Content-Length" in answer.json()["error"]) == (400, True)


FIELDS = """
    from pydantic import BaseModel

    Input = list[float]


    class Box(BaseModel):
        x: float


    class Output(BaseModel):
        score: float
        found: list[float]
        box: Box


    class Model:
        examples = ([1.0],)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [Output(score=row[0], found=row[:1] * int(min(row[0], 3)), box=Box(x=row[0])) for row in batch]
"""


def test_every_field_of_an_output_has_its_tensor_and_lists_have_one_length() -> None:
    with serve(FIELDS) as client:

        def ask(shape: list[int], data: list[Any]) -> Any:
            return infer(client, {"name": "input", "shape": shape, "datatype": "FP64", "data": data})

        about = {one["name"]: one["datatype"] for one in client.get("/v2/models/kind").json()["outputs"]}
        assert about == {"score": "FP64", "found": "FP64", "box": "BYTES"}
        found = {one["name"]: one for one in ask([2, 1], [2, 2]).json()["outputs"]}
        assert (found["score"]["data"], found["found"]["shape"]) == ([2, 2], [2, 2])
        assert found["box"]["data"] == ['{"x":2.0}'] * 2
        ragged = ask([3, 1], [2, 3, 1])  # as many numbers as three rows of two
        assert (ragged.status_code, "of different lengths" in ragged.json()["error"]) == (400, True), ragged.text
        for data in ([[1, 2, 3], [4]], [1, [2, 3], 4], [[1, [2, 3]], [[], 4]]):
            wrong = ask([2, 2], data)
            assert (wrong.status_code, "[2, 2]" in wrong.json()["error"]) == (400, True), f"{data}: {wrong.text}"
