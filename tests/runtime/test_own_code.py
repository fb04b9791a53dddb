"""Owner's code that is not what it looks like: never awaited or run, ending the process, raising while it speaks."""

from __future__ import annotations

import asyncio
import json
import logging
import textwrap
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.testclient import TestClient
from gpu_repo_runtime.contract import ContractError, import_model
from gpu_repo_runtime.device.common import said
from gpu_repo_runtime.interface import Interface
from gpu_repo_runtime.serving import logs
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.auth import BearerToken
from gpu_repo_runtime.serving.engine import Choice
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.hooks import build_middleware
from gpu_repo_runtime.serving.service import Service
from gpu_repo_runtime.words import first_line, words_of
from pydantic import BaseModel
from starlette.middleware.base import BaseHTTPMiddleware

from tests.runtime.kinds import KINDS, model
from tests.runtime.owners import ASKED, Settings, client_of, with_token

MODEL = """
    Input = str
    Output = str


    class Model:
        examples = ("one",)

        def load(self, device): ...

        def predict(self, batch): return batch

        def size(self, one): return 1
"""


async def coroutine(*_: Any) -> None: ...


def generator(*_: Any) -> Any:
    yield


async def both(*_: Any) -> Any:
    yield


class Callable_:
    async def __call__(self, *_: Any) -> None: ...


NEVER_RUN = [coroutine, generator, both, Callable_(), lambda *_: coroutine(), lambda *_: generator()]


@pytest.mark.parametrize("hook", NEVER_RUN)
def test_a_function_whose_call_runs_nothing_of_it_is_refused(hook: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ContractError, match=r"extend in service\.py"):
            client_of(hook)
        for name in ("load", "predict", "size"):
            one = model(MODEL)
            setattr(one, name, hook)
            with pytest.raises(ContractError, match=f"(?i){name}"), TestClient(create_app(one, Settings(device="cpu"))):
                ...
        with client_of(None) as client:
            service: Service = client.app.state.service  # type: ignore[attr-defined]
            assert client.portal
            with pytest.raises(ContractError, match=r"given to service\.run"):
                client.portal.call(service.run, hook)


def test_what_extend_returns_is_used_or_refused() -> None:
    client_of(lambda app, service: app)
    with pytest.raises(StartRefused, match="what it returns is not used"):
        client_of(lambda app, service: BearerToken(app, token="x"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("class Model:", "class Other:", "there is no class Model"),
        ("class Model:", "def Model(): ...\n\n    class Other:", r"Model\(\) returned None"),
        ("def load", "def other", "there is no Model.load: write def load"),
        ("def predict", "def other", "there is no Model.predict: write def predict"),
        ('examples = ("one",)', "", "there are no Model.examples: write examples ="),
        ('("one",)', '"one"', "Model.examples is a str"),
        ('("one",)', "(one for one in ['one'])", "Model.examples is a generator"),
        ("Output = str", "Output = bytes", "Output is bytes, which JSON does not have: write Bytes"),
    ],
    ids=str,
)
def test_a_model_that_lacks_something_is_told_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"lacking_{abs(hash((old, new)))}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "model.py").write_text(textwrap.dedent(MODEL.replace(old, new)))
    with pytest.raises(ContractError, match=words) as refused:
        Interface(import_model(name)).examples()
    assert str(refused.value).startswith(f"{tmp_path}/{name}/model.py: ")


def test_a_middleware_that_cannot_be_made_is_refused_at_the_start() -> None:
    app = FastAPI()
    app.add_middleware(CORSMiddleware, allow_orgins=["x"])  # type: ignore[call-arg]
    with pytest.raises(StartRefused, match="allow_orgins"):
        build_middleware(app)


SECRET = 'SECRET-of-client\n{"level":"error","message":"forged"}\x1b[31m'


class Speechless(Exception):
    def __str__(self) -> str:
        return self.nonsuch  # type: ignore[attr-defined,no-any-return]

    __repr__ = __str__


class Poison:
    """Raises what cannot speak, from what repeats its input."""

    examples = ("one",)

    def load(self, device: str) -> None: ...

    def predict(self, batch: list[str]) -> list[str]:
        if "poison" in batch:
            raise Speechless from ValueError(SECRET)
        return batch


@pytest.mark.parametrize("formatter", [logs.JsonFormatter, logs.TextFormatter])
def test_an_error_whose_words_raise_is_logged_and_answered_without_them(
    formatter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    class Writer:
        put = lines.append

    handler = logs._Handler(Writer())  # type: ignore[arg-type]
    handler.setFormatter(formatter())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    with TestClient(create_app(Poison(), Settings(device="cpu"))) as client:
        answer = client.post("/predict", json={"instances": ["one", "poison"]})
        logging.getLogger("x").error("of a library: %s", Speechless())
        logging.getLogger("x").error("as a field", extra={"fields": {"one": Speechless()}})
    [fault] = answer.json()["errors"]
    assert fault == {"field": "instances.1", "reason": "the model raised Speechless"}
    text = "".join(lines)
    assert "SECRET-of" not in text
    assert "forged" not in text
    assert "Speechless: (no message)" in text
    assert said(Speechless()) == ""


def test_words_that_end_the_process_are_none() -> None:
    class Ends(Exception):
        def __str__(self) -> str:
            raise SystemExit(0)

    assert (words_of(Ends()), first_line(Ends()), first_line(ValueError("one\ntwo"))) == ("", "", "one")


def test_an_empty_list_of_inputs_has_an_empty_answer_and_others_are_refused_at_once() -> None:
    def extend(app: FastAPI, service: Service) -> None:
        @app.get("/own")
        async def own(what: str) -> Any:
            given: Any = {"none": [], "text": "abc", "many": [[1.0, 1.0]] * 9, "wrong": [["x"]], "row": [["1", 2]]}
            more = {"parameters": object()} if what == "parameters" else {}
            return await service.predict(given.get(what, [[1.0, 1.0]]), **more)

    with client_of(extend, max_queue=8, max_texts=4, request_seconds=5) as client:
        assert client.get("/own?what=none").json() == []
        assert client.get("/own?what=row").json() == [8.0]
        many = client.get("/own?what=many")
        assert (many.status_code, "MAX_QUEUE is 8" in many.json()["detail"]) == (422, True)
        for what in ("text", "wrong", "parameters"):
            assert client.get(f"/own?what={what}").status_code == 500, what
        assert client.post("/predict", json=ASKED).status_code == 200


TYPED = """
    from pydantic import BaseModel

    Input = str
    Output = str


    class Parameters(BaseModel):
        top: int | float | bool = 1


    class Model:
        examples = ("one",)

        def load(self, device): ...

        def predict(self, batch: list[Input], parameters: Parameters) -> list[Output]:
            return [repr(parameters.top)] * len(batch)
"""


def test_parameters_that_only_compare_equal_are_others() -> None:
    with TestClient(create_app(model(TYPED), Settings(device="cpu"))) as client:
        for top in ("1", "true", "1.0", "2"):
            body = f'{{"instances": ["a"], "parameters": {{"top": {top}}}}}'
            assert client.post("/predict", content=body, headers={"content-type": "application/json"}).json() == {
                "predictions": [top.title()]
            }
    assert Choice({"top": 1}) != Choice({"top": True})
    assert Choice({"top": 1}) == Choice({"top": 1})


class Body(BaseModel):
    name: str
    more: dict[str, int] = {}


def own_body(app: FastAPI, service: Service) -> None:
    @app.post("/raw")
    async def raw(request: Request) -> int:
        return len(await request.body())

    @app.post("/typed")
    async def typed(body: Body) -> str:
        return body.name

    @app.get("/ends")
    async def ends() -> None:
        raise SystemExit(0)

    @app.get("/cancelled")
    async def cancelled() -> None:
        raise asyncio.CancelledError

    @app.get("/refuses/{status}")
    async def refuses(status: int) -> None:
        raise HTTPException(status, {"left": ["gpu", 1]})


def test_an_owners_route_has_the_limits_of_a_body() -> None:
    with client_of(own_body, max_body_bytes=1000) as client:
        assert client.post("/raw", content=b"x" * 1000).json() == 1000
        for path in ("/raw", "/typed"):
            large = client.post(path, content=b"x" * 1001, headers={"content-type": "application/json"})
            assert (large.status_code, large.json()["code"]) == (413, "body_too_large"), path


class ReadsAll(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: Any) -> Response:
        self.read = len(await request.body())
        response: Response = await call_next(request)
        return response


def slow(app: FastAPI, path: str) -> tuple[int, dict[str, Any]]:
    """Return the answer to a client that stops in the middle of its body."""
    sent: list[Any] = []
    pieces = [{"type": "http.request", "body": b"abc", "more_body": True}]

    async def main() -> None:
        async def receive() -> Any:
            return pieces.pop() if pieces else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"x"), (b"content-type", b"application/json"), (b"content-length", b"100")]
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        await app({**scope, "headers": headers, "http_version": "1.1", "scheme": "http"}, receive, send)

    asyncio.run(main())
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.parametrize("path", ["/raw", "/typed", "/predict"])
def test_a_client_that_stops_within_its_body_is_told(path: str) -> None:
    def extend(app: FastAPI, service: Service) -> None:
        own_body(app, service)
        if path == "/predict":
            app.add_middleware(ReadsAll)

    app = create_app(model(KINDS["row"]), Settings(device="cpu", body_seconds=0.05), extend=extend)
    status, body = slow(app, path)
    assert (status, body["code"]) == (408, "body_too_slow")


def test_an_owners_route_refuses_as_predict_does_and_repeats_nothing() -> None:
    with client_of(own_body) as client:
        wrong = client.post("/typed", json={"name": ["secret"], "more": {"secret": "secret"}})
        assert (wrong.status_code, wrong.headers["content-type"]) == (422, "application/problem+json")
        assert [fault["field"] for fault in wrong.json()["errors"]] == ["body.name", "body.more.*"]
        assert (wrong.json()["code"], "secret" in wrong.text) == ("invalid_request", False)
        for path in ("/ends", "/cancelled"):
            ends = client.get(path)
            assert (ends.status_code, ends.json()["code"]) == (500, "internal"), path
        service: Service = client.app.state.service  # type: ignore[attr-defined]
        assert service.unfinished == 0, "what the owner's code cancels is no request that the end cut off"
        assert client.post("/predict", json=ASKED).status_code == 200


def test_an_owners_refusal_may_say_anything_that_json_has_and_nothing() -> None:
    with client_of(own_body) as client:
        conflict = client.get("/refuses/409")
        assert (conflict.status_code, json.loads(conflict.json()["detail"])) == (409, {"left": ["gpu", 1]})
        for status in (204, 304):
            empty = client.get(f"/refuses/{status}")
            assert (empty.status_code, empty.content) == (status, b"")


def test_an_owners_route_may_wait_for_an_answer_no_longer_than_it_wants() -> None:
    def extend(app: FastAPI, service: Service) -> None:
        @app.get("/soon")
        async def soon() -> str:
            try:
                async with asyncio.timeout(0.05):
                    await service.run(time.sleep, 0.5)
            except TimeoutError:
                return f"{service.batcher.queue.count} wait"
            return "in time"

    with client_of(extend) as client:
        assert client.get("/soon").json() == "0 wait"
        service: Service = client.app.state.service  # type: ignore[attr-defined]
        assert service.unfinished == 0


def test_what_is_to_run_at_the_start_and_never_would_is_refused() -> None:
    for event in ("on_startup", "on_shutdown"):

        def extend(app: FastAPI, service: Service, event: str = event) -> None:
            getattr(app.router, event).append(print)

        with pytest.raises(StartRefused, match="write a lifespan around"):
            client_of(extend)


class Replays:
    """Reads the body and gives it to whoever asks, as often as that may be: many a middleware is written like this."""

    given = 0

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive()).get("body", b"") if scope["type"] == "http" else b""

        async def again() -> Any:
            Replays.given += 1
            if Replays.given > 100:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again if scope["type"] == "http" else receive, send)


def test_a_middleware_that_gives_the_body_again_and_again_does_not_stop_the_service() -> None:
    with client_of(lambda app, _: app.add_middleware(Replays)) as client:
        assert client.post("/predict", json=ASKED).status_code == 200
    assert Replays.given <= 2


def test_a_websocket_without_the_package_for_it_is_refused() -> None:
    def extend(app: FastAPI, service: Service) -> None:
        app.add_api_websocket_route("/ws", lambda socket: None)  # type: ignore[arg-type,return-value]

    with pytest.raises(StartRefused, match="/ws needs the package websockets"):
        client_of(extend)


def test_a_gateways_path_is_as_open_as_the_path_itself() -> None:
    with client_of(with_token, root_path="/nlp") as client:
        for path, status in (("/livez", 200), ("/nlp/livez", 200), ("/nlp/predict", 401), ("/nlplivez", 401)):
            assert client.get(path).status_code == status, path


def test_a_body_that_is_wrapped_in_more_than_chunks_is_not_taken() -> None:
    with client_of(None) as client:
        for coding, status in (("gzip, chunked", 501), ("chunked", 200), ("Chunked", 200), ("identity", 501)):
            headers = {"transfer-encoding": coding, "content-type": "application/json"}
            answer = client.post("/predict", content=json.dumps(ASKED), headers=headers)
            assert answer.status_code == status, coding
