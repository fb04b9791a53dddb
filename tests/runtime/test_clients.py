"""Clients that others have written, against a service that runs: of Triton, of KServe, and made from openapi.json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from tests.runtime.services import PACKAGE, Process

BIN = Path(sys.executable).parent
MODEL = '''
    """A model whose inputs and outputs are tensors of each kind."""

    from gpu_repo_runtime.inputs import Bytes
    from pydantic import BaseModel


    class Input(BaseModel):
        pixels: list[list[float]]
        count: int
        flag: bool
        name: str
        raw: Bytes


    class Parameters(BaseModel):
        times: int = 1


    class Output(BaseModel):
        means: list[float]
        count: int
        flag: bool
        name: str
        raw: Bytes


    class Model:
        examples = (Input(pixels=[[1.0, 2.0], [3.0, 4.0]], count=3, flag=True, name="one", raw=b"\\x00\\xff"),)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input], parameters: Parameters) -> list[Output]:
            return [
                Output(
                    means=[sum(row) / len(row) for row in one.pixels],
                    count=one.count * parameters.times,
                    flag=not one.flag,
                    name=one.name[::-1],
                    raw=one.raw[::-1],
                )
                for one in batch
            ]
'''


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Return a service that runs and whose model has tensors of each kind."""
    folder = tmp_path_factory.mktemp("tensors")
    package = folder / "src" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model.py").write_text(textwrap.dedent(MODEL))
    process = Process(folder, folder / "service.log")
    process.wait_for("/readyz", 200)
    yield process
    process.popen.kill()
    process.popen.wait()


@pytest.fixture
def triton(service: Process) -> Iterator[InferenceServerClient]:
    """Return Triton's client of it."""
    with InferenceServerClient(f"127.0.0.1:{service.port}") as client:
        yield client


def texts(*values: object) -> Any:
    return np.array(values, dtype=object)


def tensors(*, binary: bool) -> list[InferInput]:
    """Two inputs of the model as Triton's client has them; in JSON, bytes are base64."""
    given = [
        ("pixels", "FP32", np.arange(12, dtype=np.float32).reshape(2, 3, 2)),
        ("count", "INT64", np.array([1, -2])),
        ("flag", "BOOL", np.array([True, False])),
        ("name", "BYTES", texts("ab", "grün")),
        ("raw", "BYTES", texts(b"\x00\xff\x01", b"") if binary else texts("AP8B", "")),
    ]
    found = []
    for name, datatype, values in given:
        one = InferInput(name, list(values.shape), datatype)
        one.set_data_from_numpy(values, binary_data=binary)
        found.append(one)
    return found


def test_tritons_client_finds_the_service_and_the_tensors_of_its_model(triton: InferenceServerClient) -> None:
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready(PACKAGE)
    assert triton.is_model_ready(PACKAGE, "1")
    assert not triton.is_model_ready("other")
    assert triton.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    about = triton.get_model_metadata(PACKAGE)
    assert {one["name"]: (one["datatype"], one["shape"]) for one in about["inputs"]} == {
        "pixels": ("FP64", [-1, -1, -1]),
        "count": ("INT64", [-1]),
        "flag": ("BOOL", [-1]),
        "name": ("BYTES", [-1]),
        "raw": ("BYTES", [-1]),
    }


@pytest.mark.parametrize("sent", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("answered", [True, False, None], ids=["as binary", "as json", "as the client likes"])
def test_tritons_client_sends_and_gets_tensors_and_bytes(
    triton: InferenceServerClient, sent: bool, answered: bool | None
) -> None:
    names = ("means", "count", "flag", "name", "raw")
    wanted = None if answered is None else [InferRequestedOutput(name, binary_data=answered) for name in names]
    answer = triton.infer(
        PACKAGE, tensors(binary=sent), outputs=wanted, request_id="7", parameters={"times": 3}, priority=1
    )
    assert answer.get_response()["id"] == "7"
    found = {name: answer.as_numpy(name) for name in names}
    assert found["means"].tolist() == [[0.5, 2.5, 4.5], [6.5, 8.5, 10.5]]
    assert (found["count"].tolist(), found["flag"].tolist()) == ([3, -6], [False, True])
    if answered is False:
        assert (found["name"].tolist(), found["raw"].tolist()) == (["ba", "nürg"], ["Af8A", ""])
    else:
        assert found["name"].tolist() == [b"ba", "nürg".encode()]
        assert found["raw"].tolist() == [b"\x01\xff\x00", b""]


@pytest.mark.slow
def test_tritons_client_hears_what_is_wrong(triton: InferenceServerClient) -> None:
    def refused(**about: Any) -> tuple[str, str]:
        with pytest.raises(InferenceServerException) as caught:
            triton.infer(**{"model_name": PACKAGE, "inputs": tensors(binary=True), **about})
        return caught.value.status(), caught.value.message()

    wrong = InferInput("count", [2], "BYTES")
    wrong.set_data_from_numpy(texts("a", "b"))
    assert refused(inputs=[wrong, *tensors(binary=True)[2:]]) == ("400", "count is BYTES and should be INT64")
    assert refused(inputs=tensors(binary=True)[1:])[1].startswith("inputs.0.pixels: Field required")
    assert refused(model_name="other")[0] == "404"
    shared = InferRequestedOutput("means")
    shared.set_shared_memory("region", 64)
    for other, name in ((InferRequestedOutput("means", class_count=2), "classification"), (shared, "shared_memory_")):
        status, words = refused(outputs=[other])
        assert (status, name in words) == ("400", True), words


@pytest.mark.slow
def test_kserves_client_speaks_both_protocols(service: Process, tmp_path: Path) -> None:
    # In an environment of its own: it asks for an older NumPy than the tools here.
    python = tmp_path / "venv/bin/python"
    subprocess.run([BIN / "uv", "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    subprocess.run([BIN / "uv", "pip", "install", "--quiet", "--python", python, "kserve>=0.21"], check=True)
    script = tmp_path / "ask.py"
    script.write_text(KSERVE)
    done = subprocess.run([python, script, service.url, PACKAGE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {
        "live": True,
        "ready": [True, True],
        "v1": [{"means": [1.5], "count": 3, "flag": False, "name": "eno", "raw": "/wA="}],
        "v2": {"means": [[1.5]], "count": [3], "flag": [False], "name": ["ba"], "raw": ["/wA="]},
        "binary": {"means": [[1.5]], "count": [3], "flag": [False]},
        "wrong": True,
    }


KSERVE = '''"""Ask a service with KServe's client; prints what it said as JSON."""
import asyncio
import json
import sys

import numpy as np
from kserve import InferInput, InferRequest, InferenceRESTClient, RESTConfig

url, name = sys.argv[1:]
GIVEN = [
    ("pixels", "FP32", np.array([[[1, 2]]], dtype=np.float32)),
    ("count", "INT64", np.array([3])),
    ("flag", "BOOL", np.array([True])),
    ("name", "BYTES", np.array(["ab"], dtype=object)),
    ("raw", "BYTES", np.array(["AP8="], dtype=object)),
]


def request(binary):
    inputs = []
    for tensor, datatype, values in GIVEN:
        one = InferInput(tensor, list(values.shape), datatype)
        if binary and tensor == "raw":
            values = np.array([b"ab"], dtype=object)  # this client reads no answer with bytes that are not a text
        one.set_data_from_numpy(values, binary_data=binary)
        inputs.append(one)
    return InferRequest(name, inputs, parameters={"binary_data_output": True} if binary else None)


async def main():
    v1 = InferenceRESTClient(RESTConfig(protocol="v1", retries=0))
    v2 = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    one = {"pixels": [[1, 2]], "count": 3, "flag": True, "name": "one", "raw": "AP8="}
    plain, binary = [
        await v2.infer(url, request(binary), model_name=name) for binary in (False, True)
    ]
    try:
        await v2.infer(url, InferRequest(name, request(False).inputs[1:]), model_name=name)
        wrong = False
    except Exception as error:
        wrong = "pixels" in str(error)
    found = {
        "live": await v1.is_server_live(url) and await v2.is_server_live(url),
        "ready": [await v2.is_server_ready(url), await v1.is_model_ready(url, name)],
        "v1": (await v1.infer(url, {"instances": [one]}, model_name=name))["predictions"],
        "v2": {one.name: one.data if one.datatype == "BYTES" else one.as_numpy().tolist() for one in plain.outputs},
        "binary": {one.name: one.as_numpy().tolist() for one in binary.outputs if one.datatype != "BYTES"},
        "wrong": wrong,
    }
    print(json.dumps(found))


asyncio.run(main())
'''
GENERATED = '''"""Ask a service with the client that was made from its OpenAPI document."""
import sys

from made import Client
from made.api.default import predict_predict_post, readyz_readyz_get
from made.api.v1 import predict_v1_models_topic_finder_predict_post
from made.api.v2 import about_v2_models_topic_finder_get, infer_v2_models_topic_finder_infer_post
from made.models import InferRequest, InferResponse, Input, InputTensor, InputTensorDatatype, ModelMetadata, Output
from made.models import Parameters, PredictRequest, PredictResponse, Problem

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
one = Input(pixels=[[1.0, 2.0]], count=3, flag=True, name="one", raw="AP8=")
asked = PredictRequest(instances=[one], parameters=Parameters(times=2))
expected = [Output(means=[1.5], count=6, flag=False, name="eno", raw="/wA=")]
for answer in (
    predict_predict_post.sync(client=client, body=asked),
    predict_v1_models_topic_finder_predict_post.sync(client=client, body=asked),
):
    assert isinstance(answer, PredictResponse), answer
    assert answer.predictions == expected, answer
for wrong in (
    predict_predict_post.sync(client=client, body=PredictRequest(instances=[])),
    predict_v1_models_topic_finder_predict_post.sync(client=client, body=PredictRequest(instances=[])),
):
    assert isinstance(wrong, Problem), wrong
    assert (wrong.status, wrong.code) == (422, "invalid_request")
about = about_v2_models_topic_finder_get.sync(client=client)
assert isinstance(about, ModelMetadata), about
assert [tensor.name for tensor in about.inputs] == ["pixels", "count", "flag", "name", "raw"]
tensors = [
    InputTensor(name="pixels", shape=[1, 1, 2], datatype=InputTensorDatatype.FP32, data=[1.0, 2.0]),
    InputTensor(name="count", shape=[1], datatype=InputTensorDatatype.INT64, data=[3]),
    InputTensor(name="flag", shape=[1], datatype=InputTensorDatatype.BOOL, data=[True]),
    InputTensor(name="name", shape=[1], datatype=InputTensorDatatype.BYTES, data=["one"]),
    InputTensor(name="raw", shape=[1], datatype=InputTensorDatatype.BYTES, data=["AP8="]),
]
inferred = infer_v2_models_topic_finder_infer_post.sync(client=client, body=InferRequest(inputs=tensors))
assert isinstance(inferred, InferResponse), inferred
assert {output.name: output.data for output in inferred.outputs}["raw"] == ["/wA="]
refused = infer_v2_models_topic_finder_infer_post.sync(client=client, body=InferRequest(inputs=tensors[1:]))
assert isinstance(refused, Problem), refused
assert readyz_readyz_get.sync(client=client) is not None
'''


@pytest.fixture
def made(service: Process, tmp_path: Path) -> Callable[[], subprocess.CompletedProcess[str]]:
    """Return a function that makes a client from the service's document."""

    def make() -> subprocess.CompletedProcess[str]:
        (tmp_path / "openapi.json").write_text(service.get("/openapi.json")[1])
        (tmp_path / "config.yml").write_text("post_hooks: []\n")  # no formatter
        command = [BIN / "openapi-python-client", "generate", "--path", "openapi.json", "--output-path", "made"]
        options = ["--meta", "none", "--config", "config.yml", "--fail-on-warning"]
        return subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)

    return make


@pytest.mark.slow
def test_a_client_is_made_from_the_openapi_document_has_types_and_is_answered(
    service: Process, made: Callable[[], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = made()
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "ask.py").write_text(GENERATED)
    # The generator casts lists of anything to what they are.
    options = ["--strict", "--disable-error-code", "redundant-cast", "--config-file", os.devnull]
    command = [BIN / "mypy", *options, "--cache-dir", tmp_path / "cache", "--python-executable", sys.executable]
    checked = subprocess.run([*command, "ask.py", "made"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    asked = subprocess.run(
        [sys.executable, "ask.py", service.url], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
