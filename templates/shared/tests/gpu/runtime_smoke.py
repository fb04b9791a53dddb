"""The project's own model, as the last layer of the GPU smoke test."""

import pytest
from gpu_repo_runtime.testing import (  # noqa: F401
    on_cpu,
    test_alone_and_in_a_batch_agree,
    test_gpu_and_cpu_agree,
    test_one_prediction_for_each_example,
)

from package_name.model import Model


@pytest.fixture(scope="module")
def model_class() -> type[Model]:
    """Return the model that the tests of the runtime try."""
    return Model
