"""The HTTP interface in process: what is accepted, how refusals look, health, metrics and logs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from tests.runtime.standin_model import Model, label

SECRET = "do-not-repeat-this"
JSON = {"content-type": "application/json"}


def test_one_and_many_texts_are_answered_in_order(client: TestClient) -> None:
    for texts in (["one"], [f"text {number}" for number in range(8)]):
        response = client.post("/predict", json={"texts": texts})
        assert response.status_code == 200, response.text
        assert [prediction["label"] for prediction in response.json()["predictions"]] == [label(text) for text in texts]


REFUSED = {
    "no body": (b"", 422, "body", "JSON"),
    "broken JSON": (f'{{"texts": ["{SECRET}'.encode(), 422, "body", "JSON"),
    "not UTF-8": (b'{"texts": ["\xff\xfe"]}', 422, "body", "JSON"),
    "half a character": (b'{"texts": ["\\ud800"]}', 422, "body", "JSON"),
    "deep nesting": (b"[" * 900, 422, "body", ""),
    "a list": (f'["{SECRET}"]'.encode(), 422, "body", ""),
    "nothing, of a model of version 0.2": (b"{}", 422, "texts", "required"),
    "no instance in it": (b'{"instances": []}', 422, "instances", "at least 1"),
    "null": (b'{"texts": null}', 422, "texts", "array"),
    "a string": (f'{{"texts": "{SECRET}"}}'.encode(), 422, "texts", "array"),
    "no text in it": (b'{"texts": []}', 422, "texts", "at least 1"),
    "too many": (json.dumps({"texts": [SECRET] * 9}).encode(), 422, "texts", "at most 8"),
    "an empty text": (b'{"texts": ["fine", ""]}', 422, "texts.1", "at least 1 character"),
    "too long": (json.dumps({"texts": [SECRET * 10]}).encode(), 422, "texts.0", "at most 100 characters"),
    "a number": (b'{"texts": ["fine", 7]}', 422, "texts.1", "string"),
    "an instance that is not text": (b'{"instances": ["fine", 7]}', 422, "instances.1", "string"),
    "instances and texts": (f'{{"instances": ["fine"], "texts": ["{SECRET}"]}}'.encode(), 422, "body", "unknown field"),
    "parameters of a model without": (
        f'{{"instances": ["a"], "parameters": {{"{SECRET}": 1}}}}'.encode(),
        422,
        "parameters",
        "unknown field",
    ),
    "another field": (f'{{"texts": ["fine"], "{SECRET}": "{SECRET}"}}'.encode(), 422, "body", "unknown field"),
}


def test_a_refusal_names_field_and_reason_and_repeats_nothing(client: TestClient) -> None:
    for case in REFUSED:
        body, status, field, reason = REFUSED[case]
        response = client.post("/predict", content=body, headers=JSON)
        problem = response.json()
        assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), case
        assert problem["code"] == "invalid_request", case
        assert any(error["field"] == field and reason in error["reason"] for error in problem["errors"]), problem
        assert SECRET not in response.text, case
        assert len(response.content) < 2000, case


@pytest.mark.parametrize("body", ['{"text": "rain"}', '["rain"]', '{"instances": "rain"}', '{"inputs": ["rain"]}'])
def test_a_body_of_another_form_is_told_the_form(client: TestClient, body: str) -> None:
    refused = client.post("/predict", content=body, headers=JSON)
    assert refused.status_code == 422
    assert refused.json()["detail"].endswith('send {"instances": ["one"]}'), refused.json()


def test_a_large_body_is_refused_by_its_length_and_while_it_comes(client: TestClient) -> None:
    large = json.dumps({"texts": ["x" * 3000]}).encode()
    for content in (large, iter([large[:1000], large[1000:2000], large[2000:]])):
        response = client.post("/predict", content=content, headers=JSON)
        assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
        assert "2000 bytes" in response.json()["detail"]


@pytest.mark.parametrize(
    ("media_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/json-patch+json", 415),
        ("application/jsonlines", 415),
    ],
)
def test_only_json_is_taken_for_json(client: TestClient, media_type: str, status: int) -> None:
    response = client.post("/predict", content=b'{"texts": ["a"]}', headers={"content-type": media_type})
    assert response.status_code == status


def test_other_media_types_paths_and_methods(client: TestClient) -> None:
    assert client.post("/predict", content=b"texts=a").status_code == 415
    missing = client.get("/nothing")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    wrong = client.get("/predict")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


def test_a_poisoned_text_is_named_and_its_neighbours_in_other_requests_live(client: TestClient) -> None:
    bad = client.post("/predict", json={"texts": ["fine", "poison"]})
    assert (bad.status_code, bad.json()["code"]) == (500, "prediction_failed")
    assert bad.json()["errors"] == [{"field": "instances.1", "reason": "the model raised ValueError"}]
    assert client.post("/predict", json={"texts": ["fine"]}).status_code == 200


def test_a_number_that_is_not_finite_is_null_and_the_json_valid(client: TestClient) -> None:
    response = client.post("/predict", json={"texts": ["nan"]})
    assert json.loads(response.text, parse_constant=pytest.fail)["predictions"][0]["score"] is None


def test_openapi_has_the_limits_and_an_example_that_works(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operation = document["paths"]["/predict"]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    schema = document["components"]["schemas"][content["schema"]["$ref"].rsplit("/", 1)[1]]
    inputs = schema["properties"]["texts"]  # a model of version 0.2
    assert (inputs["maxItems"], inputs["items"]["maxLength"]) == (8, 100)
    assert {"200", "408", "413", "415", "422", "500", "503", "504"} <= operation["responses"].keys()
    assert client.post("/predict", json=content["example"]).status_code == 200
    assert client.get("/docs").status_code == 200


def test_deadline_gives_504_and_frees_the_queue(serving: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CALL_MS", "300")
    app = serving("app").create_app(Model(), serving("settings").Settings(device="cpu", request_seconds=0.1))
    with TestClient(app) as client:
        late = client.post("/predict", json={"texts": ["a"]})
        assert (late.status_code, late.json()["code"]) == (504, "deadline_exceeded")
        assert app.state.service.batcher.queue.count == 0


def test_settings_refuse_what_cannot_work(serving: Callable) -> None:
    with pytest.raises(ValueError, match="MAX_QUEUE=10"):
        serving("settings").Settings(max_texts=20, max_queue=10)
    for name, field in serving("settings").Settings.model_fields.items():
        for value in ("inf", "nan") if field.annotation is float else ():
            with pytest.raises(ValueError, match=name):
                serving("settings").Settings(**{name: value})
