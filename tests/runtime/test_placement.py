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

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class Tensor:
    """A tensor somewhere."""

    def __init__(self, where: str) -> None:
        self.device = SimpleNamespace(type=where)


class Network:
    """A network with parameters here and there."""

    def __init__(self, *where: str) -> None:
        self.parameters = lambda: [Tensor(one) for one in where]
        self.buffers = list[Tensor]


class Session:
    """An ONNX session that runs where `given` says, whatever was asked for."""

    given: tuple[str, ...] = (CPU,)

    def __init__(self, path: str = "", options: Any = None, providers: Any = ()) -> None:
        self.asked, self.fallback = providers, True

    def get_providers(self) -> list[str]:
        return list(self.given)

    def disable_fallback(self) -> None:
        self.fallback = False


@pytest.fixture(autouse=True)
def frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch")
    torch.nn, torch.Tensor = SimpleNamespace(Module=Network), Tensor
    onnxruntime: Any = ModuleType("onnxruntime")
    onnxruntime.InferenceSession = Session
    onnxruntime.SessionOptions = lambda: SimpleNamespace(intra_op_num_threads=0)
    for module in (torch, onnxruntime):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(Session, "given", (CPU,))


# Attributes of a model, and what is said of it; nothing where it is on the GPU, or on both on purpose.
PLACES: list[tuple[dict[str, Any], str]] = [
    (
        {"pipeline": SimpleNamespace(model=Network("cpu", "cpu")), "labels": ["a"]},
        "Model.pipeline.model is on the CPU: ",
    ),
    ({"parts": {"encoder": Network("cpu")}}, "Model.parts['encoder'] is on the CPU: "),
    ({"topics": Tensor("cpu")}, "Model.topics is on the CPU: "),
    ({"session": Session()}, f"Model.session is an ONNX session on {CPU}"),
    ({"model": Network("cuda", "cpu")}, ""),
    ({"model": Network("cuda"), "topics": Tensor("cpu")}, ""),
]


def test_what_was_left_on_the_cpu_is_named() -> None:
    for parts, said in PLACES:
        faults = left_on_cpu(SimpleNamespace(**parts))
        assert [fault[: len(said)] for fault in faults] == ([said] if said else []), faults


def test_cuda_refuses_to_start_and_auto_warns(caplog: pytest.LogCaptureFixture) -> None:
    model = SimpleNamespace(net=Network("cpu"))
    check_placement(model, "cpu", Settings(device="cuda"))
    assert not caplog.messages, "on a CPU everything is where it belongs"
    with pytest.raises(StartRefused, match=r"DEVICE=cuda, but Model\.net is on the CPU"):
        check_placement(model, "cuda", Settings(device="cuda"))
    check_placement(model, "cuda", Settings(device="auto"))
    assert "Model.net is on the CPU" in caplog.text


def test_a_session_on_the_gpu_never_falls_back_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match=r"model\.onnx cannot run on the GPU"):
        onnx.session("weights/model.onnx", "cuda")
    monkeypatch.setattr(Session, "given", (CUDA, CPU))
    session = onnx.session("model.onnx", "cuda")
    assert (session.asked, session.fallback) == ([CUDA], False)
