"""The share of an owner's examples that the model predicts as expected."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import device, weights
from ..contract import ContractError
from ..interface import Interface

BATCH = 32


class QualityError(Exception):
    """Nothing was compared; the message says why."""


def examples_in(file: Path) -> tuple[list[Any], list[Any]]:
    """Return inputs and right answers of JSON Lines {"instance": ..., "prediction": ...}. Raises QualityError.

    A prediction may name only some fields of an answer.
    """
    try:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        inputs = [row["instance"] for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise QualityError(
            f'--evaluate {file}: give JSON Lines such as {{"instance": "a text", "prediction": {{"label": "x"}}}} '
            f"({type(error).__name__}: {error})"
        ) from error
    right = [row["prediction"] for row in rows if "prediction" in row]
    if not rows or len(right) not in (0, len(rows)):
        raise QualityError(f"--evaluate {file}: {len(rows)} lines, {len(right)} with a prediction; give all or none")
    return inputs, right


def likeness(right: Any, answer: Any) -> float:
    """Return 1 for an answer that is right, 0 for another; for numbers the cosine of their angle.

    Numbers beside words, such as scores, do not count.
    """
    if isinstance(right, dict):
        words = {name: one for name, one in right.items() if not isinstance(one, float)}
        if not isinstance(answer, dict):
            return 0.0
        parts = [likeness(one, answer.get(name)) for name, one in (words or right).items()]
        return min(parts, default=1.0)
    if isinstance(right, list) and right and all(isinstance(one, int | float) for one in right):
        return _cosine(right, answer)
    if isinstance(right, float) and isinstance(answer, int | float):
        return 1.0 - min(1.0, abs(right - answer) / max(abs(right), 1e-12))
    return float(right == answer)


def _cosine(left: Sequence[float], right: Any) -> float:
    if not isinstance(right, list) or len(left) != len(right):
        return 0.0
    lengths = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / lengths if lengths else float(list(left) == right)


def accuracy(model: Any, file: Path, requested: str = "auto") -> tuple[int, float]:
    """Return the number of inputs in an owner's file, and the share that the model gets right. Raises QualityError."""
    inputs, right = examples_in(file)
    if not right:
        raise QualityError(f"--evaluate {file}: no line has a prediction, so nothing says what is right")
    try:
        interface = Interface(model)
        weights.load(model, device.choose(requested))
        answers = _answers(interface, interface.held(inputs))
    except (ContractError, TypeError, device.DeviceError, weights.WeightsError) as error:
        raise QualityError(str(error)) from error
    return len(inputs), _mean(right, answers)


def _answers(interface: Interface, inputs: list[Any]) -> list[Any]:
    batches = (inputs[at : at + BATCH] for at in range(0, len(inputs), BATCH))
    return [
        answer for batch in batches for answer in json.loads(interface.json(interface.checked(interface.call(batch))))
    ]


def _mean(right: list[Any], answers: list[Any]) -> float:
    return sum(map(likeness, right, answers)) / len(right)
