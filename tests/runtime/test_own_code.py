"""Owner's code that is not what it looks like: never awaited or run, ending the process, raising while it speaks."""

from __future__ import annotations

import logging
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.testclient import TestClient
from gpu_repo_runtime.contract import ContractError, import_model
from gpu_repo_runtime.device.errors import said
from gpu_repo_runtime.interface import Interface
from gpu_repo_runtime.serving import logs
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.auth import BearerToken
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.hooks import build_middleware
from gpu_repo_runtime.serving.service import Service

from tests.runtime.kinds import model
from tests.runtime.owners import ASKED, Settings, client_of

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
    with pytest.raises(StartRefused, match="its return value is not used"):
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
        ("Output = str", "Output = bytes", "Output is or contains bytes, which JSON does not have: write Bytes"),
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

    handler = logs.Handler(formatter(), Writer())  # type: ignore[arg-type]
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
