"""The Open Inference Protocol: tensors of each type, in JSON and in the binary form, and what is refused."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.runtime.kind_clients import clients_of_kinds

HEADER = "inference-header-content-length"


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, TestClient]]:
    """Return a client of a service for each kind, and of one for texts."""
    with clients_of_kinds() as found:
        yield found


def infer(client: TestClient, *inputs: dict[str, Any], name: str = "kind", **more: Any) -> Any:
    return client.post(f"/v2/models/{name}/infer", json={"inputs": inputs, **more})


def test_v2_tells_what_it_is(clients: dict[str, TestClient]) -> None:
    client = clients["row"]
    assert client.get("/v2").json().keys() == {"name", "version", "extensions"}
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"live": True, "ready": True}
    for path in ("/v2/models/kind", "/v2/models/kind/versions/1"):
        assert client.get(f"{path}/ready").json() == {"name": "kind", "ready": True}
        assert client.get(path).json() == {
            "name": "kind",
            "versions": ["1"],
            "platform": "gpu-repo-runtime",
            "inputs": [{"name": "input", "datatype": "FP64", "shape": [-1, -1]}],
            "outputs": [{"name": "output", "datatype": "FP64", "shape": [-1]}],
        }
    about = clients["image"].get("/v2/models/kind").json()
    assert {one["name"]: (one["datatype"], one["shape"]) for one in about["inputs"] + about["outputs"]} == {
        "image": ("BYTES", [-1]),
        "threshold": ("FP64", [-1]),
        "labels": ("BYTES", [-1, -1]),
        "bright": ("FP64", [-1]),
    }


def test_v2_infers_numbers_flat_nested_and_of_every_type(clients: dict[str, TestClient]) -> None:
    client = clients["row"]
    for data in ([0, 1, 2, 3, 4, 5], [[0, 1], [2, 3], [4, 5]]):
        for datatype in ("FP32", "FP64", "INT64", "UINT8"):
            tensor = {"name": "x", "shape": [3, 2], "datatype": datatype, "data": data}
            answer = infer(client, tensor, id="42")
            assert answer.json() == {
                "model_name": "kind",
                "model_version": "1",
                "id": "42",
                "outputs": [{"name": "output", "shape": [3], "datatype": "FP64", "data": [3.0, 13.0, 23.0]}],
            }


def test_v2_speaks_the_binary_form(clients: dict[str, TestClient]) -> None:
    values = [0.0, 1.0, 2.0, 3.0]
    for datatype, code in (("FP32", "f"), ("FP64", "d"), ("FP16", "e"), ("INT32", "i")):
        data = struct.pack(f"<4{code}", *(map(int, values) if code == "i" else values))
        tensor = {"name": "x", "shape": [2, 2], "datatype": datatype, "parameters": {"binary_data_size": len(data)}}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        answer = clients["row"].post("/v2/models/kind/infer", content=head + data, headers={HEADER: str(len(head))})
        length = int(answer.headers[HEADER])
        [output] = json.loads(answer.content[:length])["outputs"]
        assert (output["parameters"], answer.headers["content-type"]) == (
            {"binary_data_size": 16},
            "application/octet-stream",
        )
        assert struct.unpack("<2d", answer.content[length:]) == (3.0, 13.0)


def test_v2_infers_texts_and_images(clients: dict[str, TestClient]) -> None:
    for shape in ([2], [2, 1]):
        tensor = {"name": "text", "shape": shape, "datatype": "BYTES", "data": ["a", "b"]}
        [output] = infer(clients["text"], tensor, name="standin").json()["outputs"]
        assert (output["datatype"], output["shape"]) == ("BYTES", [2])
        assert (
            json.loads(output["data"][0])["label"]
            == clients["text"].post("/predict", json={"instances": ["a"]}).json()["predictions"][0]["label"]
        ), "what is not a tensor comes as JSON"
    raw = bytes(range(200, 256))
    text = base64.b64encode(raw).decode()
    images = {"name": "image", "shape": [2], "datatype": "BYTES", "data": [text, text]}
    thresholds = {"name": "threshold", "shape": [2], "datatype": "FP32", "data": [0.5, 1.5]}
    found = infer(clients["image"], images, thresholds, parameters={"top": 2, "timeout": 5}).json()["outputs"]
    assert {one["name"]: one.get("data") for one in found}["labels"] == ["bright", "image", "dark", "image"]
    wanted = infer(clients["image"], images, outputs=[{"name": "bright"}]).json()["outputs"]
    assert [one["name"] for one in wanted] == ["bright"]
    data = struct.pack("<I", len(raw)) + raw
    about = {"name": "image", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(data)}}
    asked = {"inputs": [about], "outputs": [{"name": "labels", "parameters": {"binary_data": True}}]}
    head = json.dumps(asked).encode()
    answer = clients["image"].post("/v2/models/kind/infer", content=head + data, headers={HEADER: str(len(head))})
    assert answer.content.endswith(struct.pack("<I", 6) + b"bright")


ROW = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
BAD = {
    "a count that is not the shape's": (
        {**ROW, "shape": [2, 2]},
        "input has 2 values, and its shape [2, 2] requires 4",
    ),
    "too many dimensions": ({**ROW, "shape": [1, 2, 2]}, "input has 3 dimensions and should have 2"),
    "an empty dimension": ({**ROW, "shape": [0, 2]}, "inputs.0.shape.0: Input should be greater than or equal to 1"),
    "a text among numbers": ({**ROW, "data": [1, "secret"]}, "input holds a str, which is not FP32"),
    "true among numbers": ({**ROW, "data": [1, True]}, "input holds a bool, which is not FP32"),
    "another type": ({**ROW, "datatype": "BYTES", "data": ["secret", "b"]}, "input is BYTES and should be FP64"),
    "an unknown type": ({**ROW, "datatype": "FP8"}, "inputs.0.datatype"),
    "no data": ({**ROW, "name": "secret", "data": None}, "input: give data, or parameters.binary_data_size"),
    "data that is not there": (
        {**ROW, "name": "secret", "data": None, "parameters": {"binary_data_size": 8}},
        "input: binary_data_size is not a part of the body",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_v2_refuses_tensors_that_do_not_fit_with_400_and_one_line(clients: dict[str, TestClient], case: str) -> None:
    tensor, words = BAD[case]
    answer = infer(clients["row"], tensor)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    assert words in answer.json()["error"]
    assert "secret" not in answer.text


def test_v2_refuses_what_does_not_fit_the_model_or_each_other(clients: dict[str, TestClient]) -> None:
    images = {"name": "image", "shape": [1], "datatype": "BYTES", "data": ["aGk="]}
    two = {"name": "threshold", "shape": [2], "datatype": "FP32", "data": [0.5, 1.5]}
    for answer, words in (
        (infer(clients["document"], ROW), "not a tensor, text or bytes: ask POST /predict"),
        (infer(clients["image"], images, two), "differ in their first dimension"),
        (infer(clients["image"], {**images, "name": "picture"}, two), "none of image, threshold"),
        (infer(clients["image"], two), "inputs.0.image: Field required"),
        (infer(clients["image"], {**images, "data": ["no base64!"]}), "image is not base64"),
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
