"""The smoke test of a project's own model: fixtures and tests that pytest takes where tests/gpu imports them.

The importing module has a fixture `model_class` that gives the project's model.
"""

import importlib.util
import math
import os
from typing import Any

import pytest

from . import device, weights

Examples = list[Any]


@pytest.fixture(scope="session")
def cuda() -> str:
    """Return "cuda"; without a usable GPU skip, or fail where scripts/smoke --require asks for one."""
    try:
        return device.choose("cuda")
    except device.DeviceError as error:
        missing = str(error)
    if os.environ.get("SMOKE_REQUIRE", "none") == "none":
        pytest.skip(missing.partition(";")[0])
    pytest.fail(missing, pytrace=False)


@pytest.fixture(scope="module")
def on_cpu(model_class: Any) -> Examples:
    """Return the predictions of the model's examples on the CPU."""
    return predictions(loaded(model_class, "cpu"), list(model_class.examples))


def loaded(model_class: Any, where: str) -> Any:
    """Return the model on a device."""
    model = model_class()
    weights.load(model, where)
    return model


def predictions(model: Any, inputs: Examples) -> Examples:
    """Return what the model says to the inputs, as dicts, lists, texts and numbers."""
    if importlib.util.find_spec("pydantic"):
        from .interface import Interface

        interface = Interface(model)
        if not interface.dated:
            return interface.answers(inputs)
    return list(model.predict(inputs))


def same(left: object, right: object, tolerance: float) -> bool:
    """Compare two predictions; numbers may differ by the tolerance."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key], tolerance) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(*pair, tolerance) for pair in zip(left, right, strict=True))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=0, abs_tol=tolerance)
    return left == right


def check(model_class: Any, what: str, found: Examples, expected: Examples) -> None:
    """Fail with a line for each example whose prediction is another than expected."""
    rows = zip(model_class.examples, found, expected, strict=True)
    tolerance = getattr(model_class, "tolerance", 1e-3)  # as gpu-smoke's
    wrong = [
        f"{example!r}: {what} {one}, not {other}" for example, one, other in rows if not same(one, other, tolerance)
    ]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_one_prediction_for_each_example(model_class: Any, on_cpu: Examples) -> None:
    """Each example is answered."""
    if len(on_cpu) != len(model_class.examples):
        pytest.fail(f"{len(model_class.examples)} examples are answered with {len(on_cpu)} predictions", pytrace=False)


def test_alone_and_in_a_batch_agree(model_class: Any, on_cpu: Examples) -> None:
    """Who shares a batch with an input does not change its answer."""
    model = loaded(model_class, "cpu")
    alone = [predictions(model, [example])[0] for example in model_class.examples]
    check(model_class, "alone it is", alone, on_cpu)


def test_gpu_and_cpu_agree(model_class: Any, cuda: str, on_cpu: Examples) -> None:
    """The GPU computes what the CPU computes."""
    on_gpu = predictions(loaded(model_class, cuda), list(model_class.examples))
    check(model_class, "on the GPU it is", on_gpu, on_cpu)
