"""Inputs that the model rejects: the client's error, and nobody else's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.runtime.kind_clients import serve

PICKY = """
    from gpu_repo_runtime.inputs import InvalidInput

    Input = str
    Output = int


    class Model:
        examples = ("12", "7")

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            answers = []
            for text in batch:
                if not text.isdigit():
                    raise InvalidInput("expected digits")
                answers.append(int(text))
            return answers
"""


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with serve(PICKY) as client:
        yield client


def test_the_message_is_a_422_without_an_error_in_the_log(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    answer = client.post("/predict", json={"instances": ["1", "two", "3"]})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": "instances.1", "reason": "expected digits"}]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


NAMED = """
    from pydantic import AliasChoices, BaseModel, Field

    Output = float


    class Input(BaseModel):
        area: float = Field(gt=0, validation_alias=AliasChoices("area", "Area m2"))


    class Model:
        examples = ({"area": 50.0},)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [one.area for one in batch]
"""


@pytest.mark.parametrize(("row", "field"), [({"Area m2": "x"}, "Area m2"), ({"area": -1}, "area"), ({}, "area")])
def test_an_error_names_the_field_as_the_client_wrote_it(row: dict[str, Any], field: str) -> None:
    with serve(NAMED) as client:
        answer = client.post("/predict", json={"instances": [row]})
    assert [one["field"] for one in answer.json()["errors"]] == [f"instances.0.{field}"], answer.text


def test_the_other_requests_of_the_batch_are_answered(client: TestClient) -> None:
    async def asked() -> list[httpx.Response]:
        transport = httpx.ASGITransport(client.app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as one:
            texts = [str(number) if number % 10 else "not a number" for number in range(60)]
            return await asyncio.gather(*(one.post("/predict", json={"instances": [text]}) for text in texts))

    answers: list[httpx.Response] = client.portal.call(asked)  # type: ignore[union-attr]
    found: list[Any] = [a.json().get("predictions", a.status_code) for a in answers]
    assert found == [[number] if number % 10 else 422 for number in range(60)]


def test_v1_takes_what_curl_sends_without_a_header(client: TestClient) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/v1/models/kind:predict", content='{"instances": ["4"]}', headers=form)
    assert answer.json() == {"predictions": [4]}
