"""What weights in fewer bits cost in the quality of answers: on the owner's own file, or on the model's examples."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import device, weights
from ..contract import ContractError
from ..interface import Interface
from ..serving.reduced import NotReduced, Reduced, reduce

BATCH = 32


class QualityError(Exception):
    """Nothing was compared, or too much was lost; the message says which."""


@dataclass(frozen=True)
class Quality:
    """Shares of right answers before and after (of the same answers, where none are given), and bytes of weights."""

    inputs: int
    before: float
    after: float
    weights: Reduced

    @property
    def drop(self) -> float:
        """Return the share of answers that was lost."""
        return max(0.0, self.before - self.after)


def examples_in(file: Path) -> tuple[list[Any], list[Any]]:
    """Return inputs and right answers of JSON Lines {"instance": ..., "prediction": ...}. Raises QualityError.

    A prediction may name some fields of an answer alone; without any, the answers before count as right.
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


def compare(model: Any, form: str, file: Path | None, requested: str = "auto") -> Quality:
    """Predict with the model as it is and with its weights in `form`; return what is lost. Raises QualityError."""
    try:
        interface = Interface(model)
        given, right = examples_in(file) if file else ([], [])
        weights.load(model, device.choose(requested))
        inputs = interface.held(given) if file else interface.examples()
        before = _answers(interface, inputs)
        made = reduce(model, form)
        after = _answers(interface, inputs)
    except (ContractError, TypeError, device.DeviceError, weights.WeightsError, NotReduced) as error:
        raise QualityError(str(error)) from error
    right = right or before
    return Quality(len(inputs), _mean(right, before), _mean(right, after), made)


def _answers(interface: Interface, inputs: list[Any]) -> list[Any]:
    batches = (inputs[at : at + BATCH] for at in range(0, len(inputs), BATCH))
    return [
        answer for batch in batches for answer in json.loads(interface.json(interface.checked(interface.call(batch))))
    ]


def _mean(right: list[Any], answers: list[Any]) -> float:
    return sum(map(likeness, right, answers)) / len(right)


def told(quality: Quality, form: str, limit: float) -> str:
    """Return the comparison in one line."""
    made = quality.weights
    return (
        f"{form}: {quality.inputs} inputs, right {quality.before:.1%} before and {quality.after:.1%} after, "
        f"drop {quality.drop:.4f} (at most {limit:g}); weights {made.before / 1e6:.1f} MB, now {made.after / 1e6:.1f}"
    )
