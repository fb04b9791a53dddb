"""The course of a training: a CSV file and a plot."""

import csv
import io
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """One line of the course. `loss` and `accuracy` are of the examples to check with; `seconds` is its own time."""

    epoch: int
    steps: int
    training_loss: float
    loss: float
    accuracy: float
    seconds: float


def read_epochs(rows: list[dict[str, Any]]) -> list[Epoch]:
    """Return the epochs from what `asdict` made of them."""
    return [Epoch(**row) for row in rows]


def as_csv(epochs: list[Epoch]) -> bytes:
    """Return the course as CSV with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Epoch)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(epoch) for epoch in epochs)
    return text.getvalue().encode()


def as_png(epochs: list[Epoch], best: int) -> bytes:
    """Return a plot of both losses as PNG; the epoch with the best weights is marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    numbers = [epoch.epoch for epoch in epochs]
    axes.plot(numbers, [epoch.training_loss for epoch in epochs], marker=".", label="training")
    axes.plot(numbers, [epoch.loss for epoch in epochs], marker=".", label="validation")
    axes.axvline(best, color="grey", linestyle=":", label=f"best: epoch {best}")
    axes.set(xlabel="epoch", ylabel="loss")
    axes.grid(alpha=0.3)
    axes.legend()
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    return content.getvalue()
