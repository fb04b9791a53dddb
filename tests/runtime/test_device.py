"""The device: the framework that the model imports is asked, and libraries are told the same."""

from __future__ import annotations

import ast
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from gpu_repo_runtime.device import origin, with_cupy

from tests.answers import FRAMEWORKS
from tests.conftest import ROOT
from tests.runtime.services import RUNTIME
from tests.runtime.standin_model import lose_device


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module, which has asked no framework yet."""
    from gpu_repo_runtime import device

    monkeypatch.setattr(device, "_found", None)
    monkeypatch.setattr(origin, "_sources", None)
    return device


def framework(device: ModuleType, monkeypatch: pytest.MonkeyPatch, *imported: str) -> str:
    """Return which module is asked when the model has imported these frameworks."""
    for name in imported:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    asked: list[str] = []
    monkeypatch.setattr(device.importlib, "import_module", lambda name, _: asked.append(name))
    device._framework()
    return asked[0]


@pytest.mark.parametrize(
    ("imported", "asked"),
    [
        ((), ".with_cupy"),
        (("torch",), ".with_torch"),
        (("tensorflow",), ".with_tensorflow"),
        (("jax",), ".with_jax"),
        (("jax", "torch"), ".with_torch"),
    ],
)
def test_the_framework_that_the_model_imports_is_asked(
    device: ModuleType, monkeypatch: pytest.MonkeyPatch, imported: tuple[str, ...], asked: str
) -> None:
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda _: None)
    assert framework(device, monkeypatch, *imported) == asked


def functions(text: str) -> dict[str, str]:
    """Return the code of every function by name, without the underscore that some names have in one file."""
    python = re.sub(r"(?m)^\{%.*%\}$", "", text)
    plain = re.sub(r"(?<!\w)_(cpu|driver_version|said|why_no_gpu|why_no_mps)\(", r"\1(", python)
    return {node.name: ast.dump(node) for node in ast.parse(plain).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_libraries_have_the_same_code(framework: str) -> None:
    own = "cupy" if framework == "plain" else framework
    mine = functions((RUNTIME / f"gpu_repo_runtime/device/with_{own}.py").read_text())
    template = (ROOT / f"templates/frameworks/{framework}.jinja").read_text()
    other = functions(template.partition("{% macro library_device() %}\n")[2].partition("{% endmacro %}")[0])
    assert other, f"templates/frameworks/{framework}.jinja has no library_device"
    # A library knows no batch job and no service, which alone ask for these two.
    served = {name: code for name, code in mine.items() if name not in ("places", "traced")}
    assert served == other, f"with_{own}.py and library_device in {framework}.jinja differ"


def test_each_framework_of_the_catalogue_can_be_asked(device: ModuleType) -> None:
    assert {"plain", *device.FRAMEWORKS} == set(FRAMEWORKS), "runtime/.../device/with_NAME.py and catalog.yml differ"


@pytest.mark.parametrize("kind", [ValueError, KeyError, TypeError, AssertionError, Exception])
def test_an_input_that_names_an_error_of_the_gpu_is_no_such_error(kind: type[Exception]) -> None:
    """A model may repeat its input in what it raises: that must not end the process, nor count as a lack of memory."""
    for text in ("cudaErrorLaunchFailure: unspecified launch failure", "out of memory", "cudaErrorMemoryAllocation"):
        error = kind(f"cannot read {text!r}")
        assert not with_cupy.is_device_lost(error), text
        assert not with_cupy.is_out_of_memory(error), text


def test_what_a_library_says_counts() -> None:
    library = type("CUDARuntimeError", (Exception,), {"__module__": "cupy_backends.cuda.api.runtime"})
    for kind in (library, RuntimeError):
        assert with_cupy.is_device_lost(kind("cudaErrorLaunchFailure: unspecified launch failure")), kind
        assert with_cupy.is_out_of_memory(kind("cudaErrorMemoryAllocation: out of memory")), kind
    assert with_cupy.is_out_of_memory(MemoryError())


class Unreadable(Exception):
    """An exception of an owner."""


@pytest.mark.parametrize("kind", [RuntimeError, Unreadable])
def test_what_a_projects_own_code_raises_is_no_lost_gpu(device: ModuleType, kind: type[Exception]) -> None:
    """The words may be an input, and who sends it could end the process of everybody."""
    with pytest.raises(kind) as own:
        raise kind("cudaErrorLaunchFailure: unspecified launch failure")
    assert not device.is_device_lost(own.value)
    assert device.reported(own.value) == ""


def test_a_lost_gpu_is_seen_through_what_an_owner_makes_of_it(device: ModuleType) -> None:
    def wrap() -> None:
        try:
            lose_device()
        except RuntimeError as error:
            raise ValueError("no answer") from error

    with pytest.raises(ValueError, match="no answer") as wrapped:
        wrap()
    assert isinstance(wrapped.value.__cause__, RuntimeError)
    assert device.is_device_lost(wrapped.value.__cause__)
    assert device.is_device_lost(wrapped.value)
    wrapped.value.__cause__ = wrapped.value
    assert not device.is_device_lost(wrapped.value), "one that is its own cause ends the search"


@pytest.mark.parametrize("kind", [RuntimeError, Unreadable])
def test_what_a_projects_own_code_raises_is_no_lack_of_memory(device: ModuleType, kind: type[Exception]) -> None:
    with pytest.raises(kind) as own:
        raise kind("out of memory: a text of a client")
    assert not device.is_out_of_memory(own.value)


def mac(monkeypatch: pytest.MonkeyPatch, *, built: bool = True, available: bool = True) -> None:
    """Let PyTorch be one for a Mac: a stand-in, as no Mac runs these tests."""
    torch: Any = ModuleType("torch")
    torch.OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})
    torch.version = SimpleNamespace(cuda=None)
    torch.backends = SimpleNamespace(
        mps=SimpleNamespace(is_built=lambda: built, is_available=lambda: available),
    )
    torch.mps = SimpleNamespace(
        recommended_max_memory=lambda: 12,
        driver_allocated_memory=lambda: 5,
        current_allocated_memory=lambda: 3,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "gpu_repo_runtime.device.with_torch", raising=False)


def test_the_gpu_of_a_mac_is_taken_where_it_is_asked_for(device: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    mac(monkeypatch)
    assert (device.choose("mps"), device.choose("cpu")) == ("mps", "cpu")
    assert device.reason("mps") == "mps: Apple GPU"
    assert device.memory("mps") == device.Memory(used=3, free=7, total=12, peak=5)
    assert device.is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)"))


def test_auto_on_a_mac_is_the_cpu_and_says_how_to_take_the_gpu(
    device: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    mac(monkeypatch)
    assert device.choose("auto") == "cpu"
    assert device.reason("cpu").endswith("; DEVICE=mps takes Apple's GPU")
    mac(monkeypatch, available=False)
    monkeypatch.setattr(device, "_found", None)
    assert "mps" not in device.reason("cpu")


@pytest.mark.parametrize(
    ("built", "words"), [(False, "this build of torch has no Metal"), (True, "torch sees no GPU of Apple")]
)
def test_the_cpu_never_stands_in_for_the_gpu_of_a_mac(
    device: ModuleType, monkeypatch: pytest.MonkeyPatch, built: bool, words: str
) -> None:
    mac(monkeypatch, built=built, available=False)
    with pytest.raises(device.DeviceError, match=words):
        device.choose("mps")
