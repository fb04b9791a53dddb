"""A service on a GPU is not computed by the CPU. The frameworks are stand-ins."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from gpu_repo_runtime import onnx
from gpu_repo_runtime.device import DeviceError
from gpu_repo_runtime.device.placement import left_on_cpu
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.settings import Settings
from gpu_repo_runtime.serving.startup import check_placement


class Tensor:
    """A tensor somewhere."""

    def __init__(self, where: str) -> None:
        self.device = SimpleNamespace(type=where)


class Network:
    """A network with parameters here and there."""

    def __init__(self, *where: str) -> None:
        self._where = where

    def parameters(self) -> list[Tensor]:
        return [Tensor(where) for where in self._where]

    def buffers(self) -> list[Tensor]:
        return []


class SessionOptions:
    """The part of ONNX Runtime's options that counts here."""

    intra_op_num_threads = 0


class InferenceSession:
    """An ONNX session that runs where `given` says, whatever was asked for."""

    given: tuple[str, ...] = ("CPUExecutionProvider",)

    def __init__(self, path: str = "", options: Any = None, providers: Any = ()) -> None:
        self.path, self.options, self.asked, self.fallback = path, options or SessionOptions(), providers, True

    def get_providers(self) -> list[str]:
        return list(self.given)

    def get_session_options(self) -> SessionOptions:
        return self.options

    def disable_fallback(self) -> None:
        self.fallback = False


@pytest.fixture
def onnxruntime(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("onnxruntime")
    module.InferenceSession, module.SessionOptions = InferenceSession, SessionOptions
    module.get_available_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setitem(sys.modules, "onnxruntime", module)
    monkeypatch.setattr(InferenceSession, "given", ("CPUExecutionProvider",))
    return module


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("torch")
    module.nn, module.Tensor = SimpleNamespace(Module=Network), Tensor
    monkeypatch.setitem(sys.modules, "torch", module)
    # What imports the stand-in goes with it.
    monkeypatch.setitem(sys.modules, "gpu_repo_runtime.device.with_torch", None)
    del sys.modules["gpu_repo_runtime.device.with_torch"]


def faults(**parts: Any) -> list[str]:
    """Return what is said of a model with these attributes."""
    return left_on_cpu(SimpleNamespace(**parts))


@pytest.mark.usefixtures("torch")
def test_a_network_that_was_left_on_the_cpu_is_named() -> None:
    [fault] = faults(pipeline=SimpleNamespace(model=Network("cpu", "cpu")), labels=["a"])
    assert fault.startswith("Model.pipeline.model is on the CPU: ")
    [fault] = faults(parts={"encoder": Network("cpu")})
    assert fault.startswith("Model.parts['encoder'] is on the CPU: ")
    assert faults(topics=Tensor("cpu"))


@pytest.mark.usefixtures("torch")
def test_what_is_on_the_gpu_or_on_both_on_purpose_is_left_in_peace() -> None:
    assert faults(model=Network("cuda", "cpu")) == []
    assert faults(model=Network("cuda"), topics=Tensor("cpu")) == []


@pytest.mark.usefixtures("onnxruntime")
def test_an_onnx_session_without_the_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    [fault] = faults(session=InferenceSession())
    assert fault.startswith("Model.session is an ONNX session on CPUExecutionProvider")
    monkeypatch.setattr(InferenceSession, "given", ("CUDAExecutionProvider", "CPUExecutionProvider"))
    assert faults(session=InferenceSession()) == []


@pytest.mark.usefixtures("torch")
def test_cuda_refuses_to_start_and_auto_warns(caplog: pytest.LogCaptureFixture) -> None:
    model = SimpleNamespace(net=Network("cpu"))
    check_placement(model, "cpu", Settings(device="cuda"))
    assert not caplog.messages, "on a CPU everything is where it belongs"
    with pytest.raises(StartRefused, match=r"DEVICE=cuda, but Model\.net is on the CPU"):
        check_placement(model, "cuda", Settings(device="cuda"))
    check_placement(model, "cuda", Settings(device="auto"))
    assert "Model.net is on the CPU" in caplog.text


def test_a_session_on_the_gpu_never_falls_back_to_the_cpu(onnxruntime: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = pytest.raises(DeviceError, match=r"model\.onnx cannot run on the GPU")
    with refused:  # CUDA cannot be loaded
        onnx.session("weights/model.onnx", "cuda")
    monkeypatch.setattr(InferenceSession, "given", ("CUDAExecutionProvider", "CPUExecutionProvider"))
    session = onnx.session("model.onnx", "cuda")
    assert (session.asked, session.fallback) == (["CUDAExecutionProvider"], False)
    onnxruntime.get_available_providers = lambda: ["CPUExecutionProvider"]
    with refused:  # not built for it
        onnx.session("weights/model.onnx", "cuda")
