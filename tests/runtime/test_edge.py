"""The edge of the service: what is asked of every request, what settings may be, what gateways need."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.runtime import raw
from tests.runtime.standin_model import Model

Start = Callable[..., Any]


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


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json", "/docs"])
def test_head_is_get_without_its_body(client: TestClient, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert int(head.headers["content-length"]) > 0
    assert client.head("/predict").status_code == 405


@pytest.mark.parametrize("path", ["/livez", "/docs", "/v2", "/v1/models"])
def test_what_takes_get_says_that_it_takes_head(client: TestClient, path: str) -> None:
    refused = client.delete(path)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    assert client.get("/predict").headers["allow"] == "POST"


def test_head_over_the_wire_leaves_the_connection_usable(start: Start) -> None:
    service = start()
    request = b"HEAD /livez HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = raw.ask(service, request + b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    first, second = answer.split(b"\r\n\r\n", 1)
    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_a_body_may_be_gzip(client: TestClient, encoding: str) -> None:
    headers = {"content-type": "application/json", "content-encoding": encoding}
    body = gzip.compress(b'{"texts": ["a"]}')
    assert client.post("/predict", content=body, headers=headers).status_code == 200
    for wrong in (body[:-4], b'{"texts": ["a"]}'):
        assert client.post("/predict", content=wrong, headers=headers).status_code == 422
    bomb = client.post("/predict", content=gzip.compress(b" " * 10_000_000), headers=headers)
    assert (bomb.status_code, bomb.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, identity"])
def test_another_encoding_is_rejected_with_what_is_accepted(client: TestClient, encoding: str) -> None:
    headers = {"content-type": "application/json", "content-encoding": encoding}
    refused = client.post("/predict", content=b"x", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (415, "encoded")
    assert refused.headers["accept-encoding"] == "gzip"


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


def test_the_defaults_take_64_texts_of_10000_chinese_characters(client: TestClient) -> None:
    body = json.dumps({"texts": ["語" * 10_000] * 64}).encode()
    assert client.post("/predict", content=body, headers={"content-type": "application/json"}).status_code == 200


ABSURD = ["0", "1e-320", "-1", "nan", "inf", "1e9", "99999999999", "many", " ", "1.5.1"]
FINE = {("MEMORY_MARGIN", "1e-320"), ("MEMORY_MARGIN", "0"), ("PORT", "0")}


@pytest.mark.parametrize("value", ABSURD)
def test_an_absurd_setting_ends_in_a_line_with_its_name_and_range(
    serving: Callable, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, looked_at = serving("settings"), 0
    for name, field in settings.Settings.model_fields.items():
        variable = name.upper()
        if field.annotation not in (int, float, int | None) or (variable, value) in FINE:
            continue
        with monkeypatch.context() as environment:
            environment.setenv(variable, value)
            with pytest.raises(ValueError, match=name) as raised:
                settings.Settings()
        lines = settings.faults(raised.value)
        assert any(re.fullmatch(rf"{variable}: take a (whole )?number (from|above) .* to .*", line) for line in lines)
        looked_at += 1
    assert looked_at > 8


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLIENT_HEADER", "x:y"),
        ("MODEL_NAME", "a/b"),
        ("MODEL_NAME", ".."),
        ("AIP_PREDICT_ROUTE", "predict"),
        ("AIP_HEALTH_ROUTE", "/{x}"),
        ("ROOT_PATH", "/x/"),
        ("APP_VERSION", "1\r\nset-cookie: a"),
    ],
)
def test_a_text_that_is_wrong_is_told_what_is_right(
    serving: Callable, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = serving("settings")
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=name.lower()) as raised:
        settings.Settings()
    [line] = settings.faults(raised.value)
    assert line.startswith(f"{name}: take ")
    assert "pattern" not in line
    assert value not in line


def test_a_port_that_vertex_sets_wrongly_is_named_as_it_was_set(
    serving: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PORT", raising=False)
    for route in ("/{name}", "/a?b", "/a b"):
        with pytest.raises(ValueError, match="aip_predict_route"):
            serving("settings").Settings(aip_predict_route=route)
    monkeypatch.setenv("AIP_HTTP_PORT", "http")
    with pytest.raises(ValueError, match="port") as raised:
        serving("settings").Settings()
    assert serving("settings").faults(raised.value) == ["AIP_HTTP_PORT: take a whole number from 0 to 65535"]


def test_a_word_that_is_no_choice_is_told_the_choices(serving: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = serving("settings")
    monkeypatch.setenv("LOG_LEVEL", "WARNING")
    assert settings.Settings().log_level == "warning"
    monkeypatch.setenv("LOG_LEVEL", "loud")
    with pytest.raises(ValueError, match="log_level") as raised:
        settings.Settings()
    [line] = settings.faults(raised.value)
    assert line.startswith("LOG_LEVEL: ")
    assert "'warning'" in line
    assert "loud" not in line


def test_every_answer_names_the_version(client: TestClient) -> None:
    for response in (client.get("/livez"), client.post("/predict", json={"texts": []}), client.get("/nothing")):
        assert response.headers["x-model-version"] == "1.2.3"


@pytest.mark.parametrize("version", ["", "a\nb", "é", " "])
def test_a_version_that_no_header_can_hold_is_refused(serving: Callable, version: str) -> None:
    with pytest.raises(ValueError, match="app_version"):
        serving("settings").Settings(app_version=version)


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


@pytest.mark.parametrize("path", ["/", "topics", "/topics/", "/a b", "/a/../b//"])
def test_a_root_path_that_no_gateway_means_is_refused(serving: Callable, path: str) -> None:
    with pytest.raises(ValueError, match="root_path"):
        serving("settings").Settings(root_path=path)
