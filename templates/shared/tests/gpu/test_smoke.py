"""The project's own model, as the last layer of the GPU smoke test."""

import math

import pytest

from {{ package_name }}.model import Model


@pytest.fixture(scope="module")
def on_cpu() -> list:
    """Return the predictions of the model's examples on the CPU."""
    model = Model()
    model.load("cpu")
    return model.predict(list(Model.examples))


def same(left: object, right: object) -> bool:
    """Compare two predictions; numbers may differ by the model's tolerance."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=0, abs_tol=Model.tolerance)
    return left == right


def test_one_prediction_for_each_text(on_cpu):
    assert len(on_cpu) == len(Model.examples)


def test_alone_and_in_a_batch_agree(on_cpu):
    model = Model()
    model.load("cpu")
    for text, together in zip(Model.examples, on_cpu, strict=True):
        assert same(model.predict([text])[0], together), text


def test_gpu_and_cpu_agree(cuda, on_cpu):
    model = Model()
    model.load(cuda)
    for text, here, there in zip(Model.examples, on_cpu, model.predict(list(Model.examples)), strict=True):
        assert same(here, there), text
