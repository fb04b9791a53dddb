"""The project's own model, as the last layer of the GPU smoke test."""

import math

import pytest
{% if project_type == 'service' %}
from gpu_repo_runtime.interface import Interface
{% endif %}

from {{ package_name }}.model import Model


def loaded(device: str) -> Model:
    """Return the model on a device."""
    model = Model()
    model.load(device)
    return model


def predictions(model: Model, inputs: list) -> list:
    """Return what the model says to the inputs, as dicts, lists, texts and numbers."""
{% if project_type == 'service' %}
    return Interface(model).answers(inputs)
{% else %}
    return model.predict(inputs)
{% endif %}


@pytest.fixture(scope="module")
def on_cpu() -> list:
    """Return the predictions of the model's examples on the CPU."""
    return predictions(loaded("cpu"), list(Model.examples))


def same(left: object, right: object) -> bool:
    """Compare two predictions; numbers may differ by the model's tolerance."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=0, abs_tol=Model.tolerance)
    return left == right


def test_one_prediction_for_each_example(on_cpu):
    assert len(on_cpu) == len(Model.examples)


def test_alone_and_in_a_batch_agree(on_cpu):
    model = loaded("cpu")
    for example, together in zip(Model.examples, on_cpu, strict=True):
        assert same(predictions(model, [example])[0], together), example


def test_gpu_and_cpu_agree(cuda, on_cpu):
    on_gpu = predictions(loaded(cuda), list(Model.examples))
    for example, here, there in zip(Model.examples, on_cpu, on_gpu, strict=True):
        assert same(here, there), example
