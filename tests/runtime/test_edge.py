"""The edge of the service: what is asked of every request, what settings may be, what gateways need."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.runtime.standin_model import Model


@pytest.fixture(scope="module")
def make(serving: Callable) -> Callable[..., TestClient]:
    """Return a function that makes a client of a service with settings."""

    def client(**settings: Any) -> TestClient:
        app = serving("app").create_app(Model(), serving("settings").Settings(device="cpu", **settings))
        return TestClient(app, raise_server_exceptions=False)

    return client


@pytest.fixture(scope="module")
def client(make: Callable[..., TestClient]) -> Iterator[TestClient]:
    with make(app_version="1.2.3") as client:
        yield client


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, identity"])
def test_a_compressed_body_is_rejected_with_what_is_accepted(client: TestClient, encoding: str) -> None:
    headers = {"content-type": "application/json", "content-encoding": encoding}
    refused = client.post("/predict", content=b"x", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (415, "encoded")
    assert refused.headers["accept-encoding"] == "identity"


def test_a_body_that_says_it_is_as_it_is_is_taken(client: TestClient) -> None:
    headers = {"content-encoding": "identity"}
    assert client.post("/predict", json={"texts": ["a"]}, headers=headers).status_code == 200


@pytest.mark.parametrize("sign", ["a", "é", "語", "😀", '"', "\n"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_passes_each_limit_of_characters_passes_that_of_bytes(
    make: Callable[..., TestClient], sign: str, ascii_only: bool
) -> None:
    body = json.dumps({"texts": [sign * 500] * 8}, ensure_ascii=ascii_only).encode()
    with make(max_texts=8, max_text_chars=500) as client:
        fits = client.post("/predict", content=body, headers={"content-type": "application/json"})
        assert fits.status_code == 200, fits.text
        large = client.post("/predict", content=body + b" " * 200_000, headers={"content-type": "application/json"})
        assert large.status_code == 413
    with make(max_texts=8, max_text_chars=500, max_body_bytes=100) as client:
        assert client.post("/predict", content=body, headers={"content-type": "application/json"}).status_code == 413


ABSURD = ["0", "1e-320", "-1", "nan", "inf", "1e9", "99999999999", "many", " ", "1.5.1"]
FINE = {("MEMORY_MARGIN", "1e-320"), ("MEMORY_MARGIN", "0"), ("PORT", "0"), ("MAX_BODY_BYTES", "1e9")}
WRONG = [
    ("CLIENT_HEADER", "x:y"),
    ("MODEL_NAME", "a/b"),
    ("MODEL_NAME", ".."),
    ("AIP_PREDICT_ROUTE", "nowhere"),
    ("AIP_PREDICT_ROUTE", "/a?b"),
    ("AIP_HEALTH_ROUTE", "/{x}"),
    ("ROOT_PATH", "/x/"),
    ("ROOT_PATH", "/a/../b//"),
    ("APP_VERSION", "1\r\nset-cookie: a"),
    ("APP_VERSION", "é"),
    ("LOG_LEVEL", "loud"),
]


def test_a_wrong_setting_ends_in_a_line_with_its_name(serving: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = serving("settings")
    numbers = [name for name, about in settings.Settings.model_fields.items() if about.annotation in (int, float)]
    rows = [(name.upper(), value) for name in (*numbers, "max_body_bytes") for value in ABSURD]
    for name, value in (row for row in rows + WRONG if row not in FINE):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(ValueError, match=name.lower()) as raised:
                settings.Settings()
            lines = settings.faults(raised.value)
        assert any(line.startswith(f"{name}: ") for line in lines), f"{name}={value}: {lines}"
        assert (name, value) not in WRONG or value not in " ".join(lines), "the value is not repeated"
    monkeypatch.setenv("LOG_LEVEL", "WARNING")
    assert settings.Settings().log_level == "warning"


def test_every_answer_names_the_version(client: TestClient) -> None:
    for response in (client.get("/livez"), client.post("/predict", json={"texts": []}), client.get("/nothing")):
        assert response.headers["x-model-version"] == "1.2.3"


def test_the_page_of_the_interface_needs_no_network(client: TestClient) -> None:
    page = client.get("/docs").text
    addresses = re.findall(r"""(?:src|href|url)["']?\s*[=:]\s*["']([^"']+)""", page)
    assert len(addresses) >= 4, page
    for address in addresses:
        assert address.startswith("/"), f"{address} is not served from here"
        assert client.get(address).status_code == 200, address


def test_behind_a_gateway_the_page_finds_what_it_shows_and_both_paths_work(make: Callable[..., TestClient]) -> None:
    with make(root_path="/ml/topics") as client:
        assert "/ml/topics/docs/assets/swagger-ui-bundle.js" in client.get("/docs").text
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/ml/topics"}]
        for path in ("/predict", "/ml/topics/predict"):  # gateways that take the path away, and those that do not
            assert client.post(path, json={"texts": ["a"]}).status_code == 200
        assert client.get("/ml/topics/livez").status_code == 200
        for asset in re.findall(r"/ml/topics(/docs/assets/[^\"]+)", client.get("/docs").text):
            assert client.get(f"/ml/topics{asset}").status_code == 200, asset
            assert client.get(asset).status_code == 200, f"{asset} behind a gateway that takes the path away"
        assert client.get("/ml/topics/ml/topics/livez").status_code == 404
