"""Inputs of other kinds than text, through the service: an image, a row of numbers, a nested document."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.settings import Settings
from jsonschema import Draft202012Validator

from tests.runtime.kinds import KINDS, model
from tests.runtime.standin_model import Model as OldModel

HEADER = "inference-header-content-length"


def serve(source: Any, **settings: Any) -> TestClient:
    one = model(source) if isinstance(source, str) else source
    return TestClient(create_app(one, Settings(device="cpu", **settings)), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, TestClient]]:
    """Return a client of a service for each kind, and of one for texts."""
    found = {kind: serve(source, max_texts=8, max_body_bytes=5000) for kind, source in KINDS.items()}
    found["text"] = serve(OldModel(), model_name="standin")
    for client in found.values():
        client.__enter__()
    yield found
    for client in found.values():
        client.__exit__(None, None, None)


def schema(client: TestClient, operation: dict[str, Any], part: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of the body or the answer of an operation, with its components, and its media type's line."""
    about = operation["requestBody"] if part == "body" else operation["responses"]["200"]
    content = about["content"]["application/json"]
    components = client.get("/openapi.json").json()["components"]
    return {**content["schema"], "components": components}, content


@pytest.mark.parametrize("kind", [*KINDS, "text"])
@pytest.mark.parametrize("path", ["/predict", "/v1/models/{}:predict"])
def test_the_documents_own_example_is_answered_as_the_document_says(
    clients: dict[str, TestClient], kind: str, path: str
) -> None:
    client = clients[kind]
    path = path.format("standin" if kind == "text" else "kind")
    operation = client.get("/openapi.json").json()["paths"][path]["post"]
    asked, content = schema(client, operation, "body")
    Draft202012Validator(asked).validate(content["example"])
    answer = client.post(path, json=content["example"])
    assert answer.status_code == 200, answer.text
    Draft202012Validator(schema(client, operation, "answer")[0]).validate(answer.json())
    assert len(answer.json()["predictions"]) == len(content["example"]["instances"])


@pytest.mark.parametrize("kind", KINDS)
def test_only_texts_are_asked_by_their_old_name(clients: dict[str, TestClient], kind: str) -> None:
    answer = clients[kind].post("/predict", json={"texts": ["a"]})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "instances")
    assert "TextsRequest" not in clients[kind].get("/openapi.json").text


def test_an_image_comes_as_base64_or_as_the_body(clients: dict[str, TestClient]) -> None:
    raw = bytes(range(200, 256))
    expected = {"labels": ["bright"], "bright": pytest.approx(sum(raw) / 255 / len(raw))}
    client, text = clients["image"], base64.b64encode(raw).decode()
    for image in (text, {"b64": text}, base64.urlsafe_b64encode(raw).decode()):
        answer = client.post("/predict", json={"instances": [{"image": image}]})
        assert answer.json() == {"predictions": [expected]}
    for path in ("/predict", "/v1/models/kind:predict"):
        for media_type in ("image/png", "image/jpeg; q=1", "application/octet-stream"):
            answer = client.post(path, content=raw, headers={"content-type": media_type})
            assert answer.json() == {"predictions": [expected]}
    refused = client.post("/predict", json={"instances": [{"image": "no base64!"}]})
    assert (refused.status_code, refused.json()["errors"]) == (
        422,
        [{"field": "instances.0.image", "reason": "Input should be base64"}],
    )
    large = client.post("/predict", content=b"x" * 6000, headers={"content-type": "image/png"})
    assert (large.status_code, large.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("kind", ["row", "document", "text"])
def test_an_image_is_no_body_for_other_models(clients: dict[str, TestClient], kind: str) -> None:
    answer = clients[kind].post("/predict", content=b"\xff", headers={"content-type": "image/png"})
    assert (answer.status_code, answer.json()["code"]) == (415, "not_json")


def test_a_document_is_checked_to_its_depth_and_no_word_of_it_repeated(clients: dict[str, TestClient]) -> None:
    line = {"name": "x", "price": 2.0, "tags": {"secret": 1}}
    for body, field in (
        ({"instances": [{"customer": "a", "lines": [line]}]}, "instances.0.lines.0.tags.*"),
        ({"instances": [{"customer": "a", "lines": [], "secret": 1}]}, "instances.0"),
        ({"instances": [{"customer": "a"}]}, "instances.0.lines"),
        ({"instances": [{"customer": "a", "lines": [{"name": "x", "price": "secret"}]}]}, "instances.0.lines.0.price"),
    ):
        answer = clients["document"].post("/predict", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
        assert "secret" not in answer.text


def test_parameters_reach_the_model_and_others_never_share_a_batch() -> None:
    one = model(KINDS["image"])
    with serve(one) as client:
        example = client.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]["content"]
        instances = example["application/json"]["example"]["instances"][:1]

        def ask(top: int) -> int:
            body = {"instances": instances * 4, "parameters": {"top": top}}
            return len(client.post("/predict", json=body).json()["predictions"][0]["labels"])

        del one.batches[:]
        with ThreadPoolExecutor(8) as pool:
            tops = [1 + number % 3 for number in range(60)]
            assert list(pool.map(ask, tops)) == tops, "each request got what it asked for"
        assert sum(count for count, _ in one.batches) == 240
        for parameters in (None, {}):
            answer = client.post("/predict", json={"instances": instances, "parameters": parameters})
            assert len(answer.json()["predictions"][0]["labels"]) == 1
        wrong = client.post("/predict", json={"instances": instances, "parameters": {"top": "x"}})
        assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "parameters.top")


WRONG = """
    Input = str
    Output = float


    class Model:
        examples = ("fine",)

        def load(self, device): ...

        def predict(self, batch):
            if "short" in batch:
                return [1.0] * (len(batch) - 1)
            if "dict" in batch:
                return {text: 1.0 for text in batch}
            return [{"none": None, "text": "secret"}.get(text, 1.0) for text in batch]

        def size(self, one):
            return len(one) if one != "no size" else None
"""


def test_a_wrong_answer_is_500_with_its_index_and_its_neighbours_stand() -> None:
    with serve(WRONG) as client, ThreadPoolExecutor(8) as pool:
        bad = {
            text: pool.submit(client.post, "/predict", json={"instances": ["fine", text]})
            for text in ("none", "text", "short", "dict", "no size")
        }
        good = [pool.submit(client.post, "/predict", json={"instances": ["fine"] * 3}) for _ in range(20)]
        assert [one.result().json() for one in good] == [{"predictions": [1.0] * 3}] * 20
        for text, one in bad.items():
            answer = one.result()
            assert (answer.status_code, answer.json()["code"]) == (500, "prediction_failed"), text
            assert "secret" not in answer.text
        for text in ("none", "text", "no size"):
            [fault] = bad[text].result().json()["errors"]
            assert fault["field"] == "instances.1", text


def test_vertex_ai_names_port_and_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = {
        "AIP_PREDICT_ROUTE": "/v1/endpoints/1/deployedModels/2:predict",
        "AIP_HEALTH_ROUTE": "/v1/endpoints/1/deployedModels/2",
    }
    for name, value in {**routes, "AIP_HTTP_PORT": "8081"}.items():
        monkeypatch.setenv(name, value)
    assert Settings().port == 8081
    monkeypatch.setenv("PORT", "9000")
    assert Settings().port == 9000, "PORT goes first"
    with serve(KINDS["row"]) as client:
        assert client.get(routes["AIP_HEALTH_ROUTE"]).json()["status"] == "ready"
        answer = client.post(routes["AIP_PREDICT_ROUTE"], json={"instances": [[1.0, 1.0]], "parameters": {}})
        assert answer.json() == {"predictions": [5.0]}
        client.app.state.service.drain()  # type: ignore[attr-defined]
        assert client.get(routes["AIP_HEALTH_ROUTE"]).status_code == 503


def test_v1_as_tensorflow_serving_and_kserve_have_it(clients: dict[str, TestClient]) -> None:
    client = clients["row"]
    assert client.get("/").json() == {"status": "alive"}
    assert client.get("/v1/models").json() == {"models": ["kind"]}
    for path in ("/v1/models/kind", "/v1/models/kind/versions/1"):
        about = client.get(path).json()
        assert (about["name"], about["ready"]) == ("kind", True)
        assert about["model_version_status"] == [
            {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ]
        for headers in ({"content-type": "application/json"}, {}):
            body = json.dumps({"signature_name": "serving_default", "instances": [[1, 1]]}).encode()
            assert client.post(f"{path}:predict", content=body, headers=headers).json() == {"predictions": [5.0]}
    for path, body, status in (
        ("/v1/models/other:predict", {"instances": [[1, 1]]}, 404),
        ("/v1/models/kind/versions/2:predict", {"instances": [[1, 1]]}, 404),
        ("/v1/models/kind:predict", {"inputs": [[1, 1]]}, 422),
    ):
        refused = client.post(path, json=body)
        assert (refused.status_code, refused.headers["content-type"]) == (status, "application/json")
        assert refused.json()["error"]


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
        "input has 2 values, and its shape [2, 2] asks for 4",
    ),
    "too many dimensions": ({**ROW, "shape": [1, 2, 2]}, "input has 3 dimensions and should have 2"),
    "an empty dimension": ({**ROW, "shape": [0, 2]}, "inputs.0.shape.0: Input should be greater than or equal to 1"),
    "a text among numbers": ({**ROW, "data": [1, "secret"]}, "input holds a str, which is not FP32"),
    "true among numbers": ({**ROW, "data": [1, True]}, "input holds a bool, which is not FP32"),
    "another type": ({**ROW, "datatype": "BYTES", "data": ["secret", "b"]}, "input is BYTES and should be FP64"),
    "an unknown type": ({**ROW, "datatype": "FP8"}, "inputs.0.datatype"),
    "no data": ({**ROW, "data": None}, "give data, or parameters.binary_data_size"),
    "data that is not there": (
        {**ROW, "data": None, "parameters": {"binary_data_size": 8}},
        "is not a part of the body",
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
        (infer(clients["row"], ROW, parameters={"other": 1}), "not known"),
        (infer(clients["row"], {**ROW, "shape": [9, 1], "data": [1] * 9}), "at most 8"),
    ):
        assert answer.status_code == 400, answer.text
        assert words in answer.json()["error"], answer.text
    for length in ("-1", "x", "9" * 30, "99", "0" * 12 + "9" * 6000):
        answer = clients["row"].post("/v2/models/kind/infer", content=b"{}", headers={HEADER: length})
        assert (answer.status_code, "Inference-Header-Content-Length" in answer.json()["error"]) == (400, True)


def test_an_error_of_a_text_asked_by_texts_names_texts(clients: dict[str, TestClient]) -> None:
    for body, field in (({"texts": ["a", "poison"]}, "texts.1"), ({"instances": ["a", "poison"]}, "instances.1")):
        answer = clients["text"].post("/predict", json=body).json()
        assert answer["errors"][0]["field"] == field
        assert field in answer["detail"]
