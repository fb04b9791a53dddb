"""The Open Inference Protocol: Triton's own client, tensors of each type in both forms, and what is refused."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

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


def test_tritons_client_hears_what_is_wrong(triton: InferenceServerClient) -> None:
    def refused(**about: Any) -> tuple[str, str]:
        with pytest.raises(InferenceServerException) as caught:
            triton.infer(**{"model_name": "kind", "inputs": tensors(binary=True), **about})
        return caught.value.status(), caught.value.message()

    assert refused(inputs=tensors(binary=True)[1:])[1].startswith("inputs.0.pixels: Field required")
    assert refused(model_name="other")[0] == "404"
    shared = InferRequestedOutput("means")
    shared.set_shared_memory("region", 64)
    for other, name in ((InferRequestedOutput("means", class_count=2), "classification"), (shared, "shared_memory_")):
        status, words = refused(outputs=[other])
        assert (status, name in words) == ("400", True), words


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
    for datatype, code in (("FP64", "d"), ("FP16", "e"), ("INT32", "i")):
        data = struct.pack(f"<4{code}", 0, 1, 2, 3)
        tensor = {"name": "x", "shape": [2, 2], "datatype": datatype, "parameters": {"binary_data_size": len(data)}}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        answer = clients["row"].post("/v2/models/kind/infer", content=head + data, headers={HEADER: str(len(head))})
        assert struct.unpack("<2d", answer.content[int(answer.headers[HEADER]) :]) == (3.0, 13.0)


def test_texts_and_images_are_tensors_and_what_is_none_comes_as_json(clients: dict[str, TestClient]) -> None:
    for shape in ([2], [2, 1]):
        tensor = {"name": "text", "shape": shape, "datatype": "BYTES", "data": ["a", "b"]}
        [output] = infer(clients["text"], tensor, name="standin").json()["outputs"]
        assert (output["datatype"], output["shape"]) == ("BYTES", [2])
        [predicted] = clients["text"].post("/predict", json={"instances": ["a"]}).json()["predictions"]
        assert json.loads(output["data"][0])["label"] == predicted["label"]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(bytes(range(200, 256))).decode()
        images = {"name": "image", "shape": [2], "datatype": "BYTES", "data": [text, text]}
        thresholds = {"name": "threshold", "shape": [2], "datatype": "FP32", "data": [0.5, 1.5]}
        found = infer(clients["image"], images, thresholds, parameters={"top": 2, "timeout": 5}).json()["outputs"]
        assert {one["name"]: one.get("data") for one in found}["labels"] == ["bright", "image", "dark", "image"]
    wanted = infer(clients["image"], images, outputs=[{"name": "bright"}]).json()["outputs"]
    assert [one["name"] for one in wanted] == ["bright"]


ROW = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
# What is changed of a row of two numbers, and what is said.
BAD: list[tuple[dict[str, Any], str]] = [
    ({"shape": [2, 2]}, "input has 2 values, and its shape [2, 2] requires 4"),
    ({"shape": [1, 2, 2]}, "input has 3 dimensions and should have 2"),
    ({"shape": [0, 2]}, "inputs.0.shape.0: Input should be greater than or equal to 1"),
    ({"shape": [1.0, 2]}, "inputs.0.shape.0"),
    ({"shape": [True, 2]}, "inputs.0.shape.0"),
    ({"data": [1, "secret"]}, "input holds a str, which is not FP32"),
    ({"data": [1, True]}, "input holds a bool, which is not FP32"),
    ({"datatype": "BYTES", "data": ["secret", "b"]}, "input is BYTES and should be FP64"),
    ({"datatype": "FP8"}, "inputs.0.datatype"),
    ({"datatype": "INT8", "data": [300, 1]}, "holds a number that is not INT8"),
    ({"datatype": "UINT8", "data": [-1, 1]}, "holds a number that is not UINT8"),
    ({"datatype": "INT32", "data": [1.5, 1]}, "holds a number that is not INT32"),
    ({"datatype": "FP16", "data": [1e9, 1]}, "holds a number that is not FP16"),
    ({"datatype": "UINT64", "data": [2**64, 1]}, "holds a number that is not UINT64"),
    ({"name": "secret", "data": None}, "input: give data, or parameters.binary_data_size"),
    (
        {"name": "secret", "data": None, "parameters": {"binary_data_size": 8}},
        "input: binary_data_size is not a part of the body",
    ),
]


def test_tensors_that_do_not_fit_are_refused_with_400_and_one_line(clients: dict[str, TestClient]) -> None:
    for change, words in BAD:
        answer = infer(clients["row"], ROW | change)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
        assert words in answer.json()["error"], change
        assert "secret" not in answer.text


def test_what_does_not_fit_the_model_or_each_other_is_refused(clients: dict[str, TestClient]) -> None:
    images = {"name": "image", "shape": [1], "datatype": "BYTES", "data": ["aGk="]}
    two = {"name": "threshold", "shape": [2], "datatype": "FP32", "data": [0.5, 1.5]}
    for answer, words in (
        (infer(clients["document"], ROW), "not a tensor, text or bytes: ask POST /predict"),
        (infer(clients["image"], images, two), "differ in their first dimension"),
        (infer(clients["image"], {**images, "name": "picture"}, two), "none of image, threshold"),
        (infer(clients["image"], two), "inputs.0.image: Field required"),
        (infer(clients["image"], {**images, "data": ["no base64!"]}), "image is not base64"),
        (infer(clients["image"], images, images), "given twice"),
        (infer(clients["image"], images, outputs=[{"name": "x"}]), "no other output than bright, labels"),
        (infer(clients["image"], images, parameters={"top": "x"}), "parameters.top: Input should"),
        (infer(clients["row"], ROW, parameters={"other": 1}), "unknown field"),
        (infer(clients["row"], {**ROW, "shape": [9, 1], "data": [1] * 9}), "at most 8"),
    ):
        assert answer.status_code == 400, answer.text
        assert words in answer.json()["error"], answer.text
    for length in ("-1", "x", "9" * 30, "99", "0" * 12 + "9" * 6000):
        answer = clients["row"].post("/v2/models/kind/infer", content=b"{}", headers={HEADER: length})
        assert (answer.status_code, "Inference-Header-Content-Length" in answer.json()["error"]) == (400, True)


FIELDS = """
    from pydantic import BaseModel, Field, computed_field

    Input = list[float]


    class Box(BaseModel):
        x: float


    class Output(BaseModel):
        score: float
        found: list[float]
        box: Box
        more: dict[str, int] = {}
        secret: str = Field(default="", exclude=True)

        @computed_field
        @property
        def twice(self) -> float:
            return 2 * self.score


    class Model:
        examples = ([1.0],)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [
                Output(score=row[0], found=row[:1] * int(min(row[0], 3)), box=Box(x=row[0]), more={"a": 1})
                for row in batch
            ]
"""


def test_every_field_of_an_output_has_its_tensor_and_lists_have_one_length() -> None:
    with serve(FIELDS) as client:

        def ask(shape: list[int], data: list[Any], **more: Any) -> Any:
            return infer(client, {"name": "input", "shape": shape, "datatype": "FP64", "data": data}, **more)

        about = {one["name"]: one["datatype"] for one in client.get("/v2/models/kind").json()["outputs"]}
        assert about == {"score": "FP64", "found": "FP64", "box": "BYTES", "more": "BYTES", "twice": "FP64"}
        found = {one["name"]: one for one in ask([2, 1], [2, 2]).json()["outputs"]}
        assert (found["score"]["data"], found["twice"]["data"], found["found"]["shape"]) == ([2, 2], [4, 4], [2, 2])
        assert (found["box"]["data"], found["more"]["data"]) == (['{"x":2.0}'] * 2, ['{"a":1}'] * 2)
        ragged = ask([3, 1], [2, 3, 1])  # as many numbers as three rows of two
        assert (ragged.status_code, "of different lengths" in ragged.json()["error"]) == (400, True), ragged.text
        for data in ([[1, 2, 3], [4]], [1, [2, 3], 4], [[1, [2, 3]], [[], 4]], [[1, 2]], [[[1, 2]], [[3, 4]]]):
            wrong = ask([2, 2], data)
            assert (wrong.status_code, "[2, 2]" in wrong.json()["error"]) == (400, True), f"{data}: {wrong.text}"


def test_a_number_that_is_not_finite_is_sent_in_the_binary_form_alone(clients: dict[str, TestClient]) -> None:
    asked: dict[str, Any] = {"inputs": [{**ROW, "data": [float("inf"), 1]}]}
    refused = clients["row"].post("/v2/models/kind/infer", content=json.dumps(asked))
    assert (refused.status_code, "ask for binary_data" in refused.json()["error"]) == (400, True), refused.text
    asked["parameters"] = {"binary_data_output": True}
    binary = clients["row"].post("/v2/models/kind/infer", content=json.dumps(asked))
    assert binary.content.endswith(struct.pack("<d", float("inf")))
