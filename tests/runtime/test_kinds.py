"""Inputs of other kinds than text: images, rows, nested documents; and V1's routes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator

from tests.runtime.kinds import KINDS
from tests.runtime.served import clients_of_kinds


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
def test_the_documents_own_example_is_answered_as_the_document_says(clients: dict[str, TestClient], kind: str) -> None:
    client = clients[kind]
    for path in ("/predict", f"/v1/models/{'standin' if kind == 'text' else 'kind'}:predict"):
        operation = client.get("/openapi.json").json()["paths"][path]["post"]
        asked, content = schema(client, operation, "body")
        Draft202012Validator(asked).validate(content["example"])
        answer = client.post(path, json=content["example"])
        assert answer.status_code == 200, answer.text
        Draft202012Validator(schema(client, operation, "answer")[0]).validate(answer.json())
        assert len(answer.json()["predictions"]) == len(next(iter(content["example"].values())))


def test_an_image_comes_as_base64_or_as_the_body(clients: dict[str, TestClient]) -> None:
    raw = bytes(range(200, 256))
    expected = {"labels": ["bright"], "bright": pytest.approx(sum(raw) / 255 / len(raw))}
    client, text = clients["image"], base64.b64encode(raw).decode()
    for image in (text, {"b64": text}, base64.urlsafe_b64encode(raw).decode()):
        answer = client.post("/predict", json={"instances": [{"image": image}]})
        assert answer.json() == {"predictions": [expected]}
    for path, media_type in (("/predict", "image/jpeg; q=1"), ("/v1/models/kind:predict", "application/octet-stream")):
        answer = client.post(path, content=raw, headers={"content-type": media_type})
        assert answer.json() == {"predictions": [expected]}
    refused = client.post("/predict", json={"instances": [{"image": "no base64!"}]})
    assert refused.json()["errors"] == [{"field": "instances.0.image", "reason": "Input should be base64"}]
    large = client.post("/predict", content=b"x" * 6000, headers={"content-type": "image/png"})
    assert (large.status_code, large.json()["code"]) == (413, "body_too_large")
    for kind in ("row", "document", "text"):
        answer = clients[kind].post("/predict", content=b"\xff", headers={"content-type": "image/png"})
        assert (answer.status_code, answer.json()["code"]) == (415, "not_json")


def test_v1_as_tensorflow_serving_and_kserve_have_it(clients: dict[str, TestClient]) -> None:
    client = clients["row"]
    assert client.get("/").json() == {"status": "alive"}
    assert client.get("/v1/models").json() == {"models": ["kind"]}
    about = client.get("/v1/models/kind").json()
    assert (about["name"], about["ready"]) == ("kind", True)
    assert about["model_version_status"] == [
        {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    ]
    body = json.dumps({"signature_name": "serving_default", "instances": [[1, 1]]}).encode()
    headers = {"content-type": "application/x-www-form-urlencoded"}  # as curl sends it
    assert client.post("/v1/models/kind:predict", content=body, headers=headers).json() == {"predictions": [5.0]}
    for path, body, status in (
        ("/v1/models/other:predict", {"instances": [[1, 1]]}, 404),
        ("/v1/models/kind/versions/2:predict", {"instances": [[1, 1]]}, 404),
        ("/v1/models/kind:predict", {"inputs": [[1, 1]]}, 422),
    ):
        refused = client.post(path, json=body)
        assert (refused.status_code, refused.headers["content-type"]) == (status, "application/json")
        assert refused.json()["error"]
