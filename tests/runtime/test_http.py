"""The HTTP interface in process: what is accepted, how refusals look, health, metrics and logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gpu_repo_runtime.interface import Interface

from tests.conftest import ROOT
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
    "instances and texts": (f'{{"instances": ["fine"], "texts": ["{SECRET}", 1]}}'.encode(), 422, "texts.1", "string"),
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
    assert bad.json()["errors"] == [{"field": "texts.1", "reason": "the model raised ValueError"}]
    assert client.post("/predict", json={"texts": ["fine"]}).status_code == 200


class Words(BaseException):
    """An error that fails when it is asked what it says."""

    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit(), StopIteration(), Words()]
)
def test_whatever_the_model_raises_is_a_500_for_that_text(serving: Callable, error: BaseException) -> None:
    class Raises(Model):
        def predict(self, batch: list[str]) -> list[dict]:
            if "bad" in batch:
                raise error
            return super().predict(batch)

    app = serving("app").create_app(Raises(), serving("settings").Settings(device="cpu"))
    with TestClient(app) as client:
        bad = client.post("/predict", json={"texts": ["fine", "bad", "fine"]})
        assert (bad.status_code, bad.json()["code"]) == (500, "prediction_failed")
        assert client.post("/predict", json={"texts": ["fine"]}).status_code == 200
        assert client.get("/livez").status_code == 200


def test_a_text_that_does_not_fit_is_413_and_named_and_the_limit_stays(serving: Callable) -> None:
    class Small(Model):
        def predict(self, batch: list[str]) -> list[dict]:
            if any(len(text) > 50 for text in batch):
                raise MemoryError("too long")
            return super().predict(batch)

    app = serving("app").create_app(Small(), serving("settings").Settings(device="cpu"))
    with TestClient(app) as client:
        for _ in range(3):
            large = client.post("/predict", json={"texts": ["a", "x" * 60, "b"]})
            assert (large.status_code, large.json()["code"]) == (413, "input_too_large")
            assert large.json()["errors"][0]["field"] == "texts.1"
        shown = client.get("/metrics").text
        assert "service_batch_limit 32.0" in shown
        assert "service_memory_shortages_total 0.0" in shown


def test_a_number_that_is_not_finite_is_null_and_the_json_valid(client: TestClient) -> None:
    response = client.post("/predict", json={"texts": ["nan"]})
    assert json.loads(response.text, parse_constant=pytest.fail)["predictions"][0]["score"] is None


def test_openapi_has_the_limits_and_an_example_that_works(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operation = document["paths"]["/predict"]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    now, before = (
        document["components"]["schemas"][one["$ref"].rsplit("/", 1)[1]] for one in content["schema"]["oneOf"]
    )
    for schema, name in ((now, "instances"), (before, "texts")):
        inputs = schema["properties"][name]
        assert (inputs["maxItems"], inputs["items"]["maxLength"]) == (8, 100)
    assert (now.get("deprecated"), before["deprecated"]) == (None, True)
    assert {"200", "408", "413", "415", "422", "500", "503", "504"} <= operation["responses"].keys()
    assert client.post("/predict", json=content["example"]).status_code == 200
    assert client.get("/docs").status_code == 200


def test_a_model_that_breaks_its_contract_does_not_start(serving: Callable) -> None:
    startup, refused = serving("startup"), serving("errors").StartRefused

    class Fixed(Model):
        def __init__(self, answers: Any) -> None:
            self.answers = answers

        def predict(self, batch: list[str]) -> Any:
            return self.answers

    startup.check(Interface(Fixed([{"label": "a", "score": 0.5, "vector": [1.0]}])), ["one"])
    for answers in (None, [], ["text"], [{1: "a"}], [{"x": object()}], {"a": 1}, "a"):
        with pytest.raises(refused, match=r"standin_model|test_http"):
            startup.check(Interface(Fixed(answers)), ["one"])


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


def test_cancelling_the_server_gives_the_texts_up(serving: Callable) -> None:
    async def scenario() -> None:
        service = serving("service").Service(Model(), serving("settings").Settings(device="cpu"))
        await service.start()
        service.batcher.lost = None
        task = asyncio.create_task(service.predict(["a"] * 3))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert service.batcher.queue.count == 0
        service.stop()

    asyncio.run(scenario())


def test_the_documentation_lists_every_setting_with_its_default(serving: Callable) -> None:
    page = (ROOT / "docs/service.md").read_text()
    for name, field in serving("settings").Settings.model_fields.items():
        assert f"| `{name.upper()}` | {field.default} | {field.description} |" in page, name
