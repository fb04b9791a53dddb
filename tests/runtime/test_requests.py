"""POST /predict: what is accepted, and refusals that name the field and repeat nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.runtime.served import asked_together, serve
from tests.runtime.standin_model import Model

SECRET = "do-not-repeat-this"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with serve(Model(), max_texts=8, max_text_chars=100, max_body_bytes=2000) as client:
        yield client


# The body, the field and words of the reason.
REFUSED: dict[str, tuple[Any, str, str]] = {
    "no body": (b"", "body", "JSON"),
    "broken JSON": (f'{{"texts": ["{SECRET}'.encode(), "body", "JSON"),
    "not UTF-8": (b'{"texts": ["\xff\xfe"]}', "body", "JSON"),
    "half a character": (b'{"texts": ["\\ud800"]}', "body", "JSON"),
    "deep nesting": (b"[" * 900, "body", ""),
    "a list": ([SECRET], "body", ""),
    "nothing, of a model of version 0.2": ({}, "texts", "required"),
    "no instance in it": ({"instances": []}, "instances", "at least 1"),
    "a string": ({"texts": SECRET}, "texts", "array"),
    "too many": ({"texts": [SECRET] * 9}, "texts", "at most 8"),
    "an empty text": ({"texts": ["fine", ""]}, "texts.1", "at least 1 character"),
    "too long": ({"texts": [SECRET * 10]}, "texts.0", "at most 100 characters"),
    "an instance that is not text": ({"instances": ["fine", 7]}, "instances.1", "string"),
    "instances and texts": ({"instances": ["fine"], "texts": [SECRET]}, "body", "unknown field"),
    "parameters of a model without": ({"instances": ["a"], "parameters": {SECRET: 1}}, "parameters", "unknown field"),
    "another field": ({"texts": ["fine"], SECRET: SECRET}, "body", "unknown field"),
}


def test_a_refusal_names_field_and_reason_and_repeats_nothing(client: TestClient) -> None:
    for case, (body, field, reason) in REFUSED.items():
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = client.post("/predict", content=content, headers=JSON)
        problem = response.json()
        assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json"), case
        assert problem["code"] == "invalid_request", case
        assert any(error["field"] == field and reason in error["reason"] for error in problem["errors"]), problem
        assert SECRET not in response.text, case
        assert len(response.content) < 2000, case


@pytest.mark.parametrize("body", ['{"text": "rain"}', '["rain"]', '{"instances": "rain"}', '{"inputs": ["rain"]}'])
def test_a_body_of_another_form_is_told_the_form(client: TestClient, body: str) -> None:
    refused = client.post("/predict", content=body, headers=JSON)
    assert refused.json()["detail"].endswith('send {"instances": [input, ...]}, as /docs shows it'), refused.json()


def test_a_large_body_is_refused_by_its_length_and_while_it_comes(client: TestClient) -> None:
    large = json.dumps({"texts": ["x" * 3000]}).encode()
    for content in (large, iter([large[:1000], large[1000:2000], large[2000:]])):
        response = client.post("/predict", content=content, headers=JSON)
        assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
        assert "2000 bytes" in response.json()["detail"]


def test_what_passes_each_limit_of_characters_passes_that_of_bytes() -> None:
    with serve(Model(), max_texts=8, max_text_chars=500) as client:
        for sign in ("a", "é", "語", "😀", '"', "\n"):
            for ascii_only in (True, False):
                body = json.dumps({"texts": [sign * 500] * 8}, ensure_ascii=ascii_only).encode()
                assert client.post("/predict", content=body, headers=JSON).status_code == 200, sign
                assert client.post("/predict", content=body + b" " * 200_000, headers=JSON).status_code == 413, sign


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json"}, 200),
        ({"content-type": "Application/JSON; charset=utf-8"}, 200),
        ({**JSON, "content-encoding": "identity"}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json-patch+json"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({**JSON, "content-encoding": "gzip"}, 415),
        ({**JSON, "content-encoding": "gzip, identity"}, 415),
    ],
    ids=str,
)
def test_only_json_as_it_is_is_taken(client: TestClient, headers: dict[str, str], status: int) -> None:
    response = client.post("/predict", content=b'{"texts": ["a"]}', headers=headers)
    assert response.status_code == status
    assert status == 200 or "encoding" not in str(headers) or response.headers["accept-encoding"] == "identity"


def test_openapi_has_the_limits_and_the_refusals(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operation = document["paths"]["/predict"]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    schema = document["components"]["schemas"][content["schema"]["$ref"].rsplit("/", 1)[1]]
    inputs = schema["properties"]["texts"]  # a model of version 0.2
    assert (inputs["maxItems"], inputs["items"]["maxLength"]) == (8, 100)
    assert {"200", "408", "413", "415", "422", "500", "503", "504"} <= operation["responses"].keys()


def test_deadline_gives_504_and_frees_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CALL_MS", "300")
    with serve(Model(), request_seconds=0.1) as client:
        late = client.post("/predict", json={"texts": ["a"]})
        assert (late.status_code, late.json()["code"]) == (504, "deadline_exceeded")
        assert "service_queue_depth 0.0" in client.get("/metrics").text


def test_a_full_queue_refuses_and_leaves_readiness_green(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CALL_MS", "10")
    with serve(Model(), max_queue=64, max_batch_size=1) as client, ThreadPoolExecutor() as pool:
        accepted = pool.submit(client.post, "/predict", json={"texts": ["a"] * 64})
        while "service_queue_depth 0.0" in client.get("/metrics").text:
            assert not accepted.done()
        refused = client.post("/predict", json={"texts": ["b"] * 64})
        assert (refused.status_code, refused.json()["code"]) == (503, "queue_full")
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/readyz").status_code == 200
        assert 'service_rejected_total{reason="queue_full"} 1.0' in client.get("/metrics").text
        assert accepted.result().status_code == 200, "accepted requests are answered"


PICKY = """
    from gpu_repo_runtime.inputs import InvalidInput
    from pydantic import AliasChoices, BaseModel, Field

    Output = float


    class Input(BaseModel):
        area: float = Field(gt=0, validation_alias=AliasChoices("area", "Area m2"))


    class Model:
        examples = ({"area": 50.0},)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            if any(one.area > 1000 for one in batch):
                raise InvalidInput("expected at most 1000")
            if any(one.area == 666 for one in batch):
                raise ValueError("secret")
            return [one.area for one in batch]
"""


def test_a_client_hears_of_its_own_inputs_and_its_neighbours_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    with serve(PICKY) as client:
        for row, field in (({"Area m2": "x"}, "Area m2"), ({"area": -1}, "area"), ({}, "area")):
            answer = client.post("/predict", json={"instances": [row]})
            assert [one["field"] for one in answer.json()["errors"]] == [f"instances.0.{field}"], answer.text
        assert client.post("/predict", json={"instances": [{"Area m2": 5}]}).json() == {"predictions": [5.0]}
        answer = client.post("/predict", json={"instances": [{"area": 1}, {"area": 2000}]})
        assert answer.json()["errors"] == [{"field": "instances.1", "reason": "expected at most 1000"}]
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
        answer = client.post("/predict", json={"instances": [{"area": 1}, {"area": 666}]})
        assert (answer.status_code, answer.json()["code"]) == (500, "prediction_failed")
        assert answer.json()["errors"] == [{"field": "instances.1", "reason": "the model raised ValueError"}]
        [logged] = [record.fields["error"] for record in caplog.records if record.exc_info]  # type: ignore[attr-defined]
        assert answer.json()["detail"].endswith(f"traceback of error {logged}")
        areas = [1 + number if number % 10 else 2000 for number in range(60)]
        answers = asked_together(client, *({"instances": [{"area": area}]} for area in areas))
        found: list[Any] = [one.json().get("predictions", one.status_code) for one in answers]
        assert found == [[area] if area < 2000 else 422 for area in areas]
