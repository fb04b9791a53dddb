"""The optimizer of plain trainings is AdamW, as Loshchilov and Hutter define it (arXiv 1711.05101, algorithm 2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_repo_runtime.training.engine import Recipe
from gpu_repo_runtime.training.with_numpy import Engine

RATE, STEPS = 0.01, 40
BEGIN = np.array([[3.0, -2.0], [0.5, 0.0]], np.float32)
AIM = np.array([[1.0, 1.0], [-1.0, 2.0]], np.float32)


class Bowl:
    """A task whose loss is the squared distance from AIM, steeper with each batch."""

    def weights(self, seed: int) -> dict[str, np.ndarray]:
        """Return where it begins."""
        return {"w": BEGIN.copy()}

    def loss(self, weights: dict[str, Any], batch: tuple[Any, ...], xp: Any) -> tuple[float, int, dict[str, Any]]:
        """Return loss, right answers and gradients."""
        away = weights["w"] - AIM
        return float((away**2).sum() * batch[0]), 0, {"w": 2 * away * batch[0]}


def defined(clip: float) -> np.ndarray:
    """Return the weights after STEPS as the definition says, in double precision."""
    weights, mean, square = BEGIN.astype(float), 0.0, 0.0
    for step in range(1, STEPS + 1):
        gradient = 2 * (weights - AIM) * step
        gradient *= min(1.0, clip / np.linalg.norm(gradient))
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        adapted = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        weights = weights - RATE * (adapted + 0.01 * weights)
    return weights


@pytest.mark.parametrize("clip", [1.0, 1e6])
def test_steps_are_those_of_the_definition(clip: float) -> None:
    engine = Engine(Bowl(), Recipe("cpu", "auto", RATE, clip, 0))
    for step in range(1, STEPS + 1):
        engine.step([(np.float32(step),)], 0)
    np.testing.assert_allclose(engine._weights["w"], defined(clip), rtol=1e-4, atol=1e-5)
