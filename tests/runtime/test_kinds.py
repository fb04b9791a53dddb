"""Inputs of other kinds than text, through the service: an image, a row of numbers, a nested document."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gpu_repo_runtime.serving.settings import Settings
from jsonschema import Draft202012Validator

from tests.runtime.kind_clients import clients_of_kinds, serve
from tests.runtime.kinds import KINDS, model


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, TestClient]]:
    """Return a client of a service for each kind, and of one for texts."""
    with clients_of_kinds() as found:
        yield found


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
    assert len(answer.json()["predictions"]) == len(next(iter(content["example"].values())))


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
