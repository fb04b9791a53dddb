"""Triton's own client, against a service that runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from tests.runtime.services import PACKAGE, Process

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
