"""The memory plan on a simulated GPU: the batch it chooses fits, leaves the margin, and one more would not."""

from __future__ import annotations

import pytest
from gpu_repo_runtime.device import Memory
from gpu_repo_runtime.serving import startup
from gpu_repo_runtime.serving.errors import StartRefused
from hypothesis import given, settings
from hypothesis import strategies as st

MB = 1_000_000


class Gpu:
    """A GPU whose memory is counted: weights, a part for each call and a part for each text."""

    def __init__(self, total: int, weights: int, per_call: int, per_text: int) -> None:
        self.total, self.weights, self.per_call, self.per_text = total, weights, per_call, per_text
        self.peak, self.calls = weights, 0

    def predict(self, texts: list[str]) -> None:
        need = self.weights + self.per_call + self.per_text * len(texts)
        self.calls += 1
        if need > self.total:
            bytearray(2**62)  # MemoryError, as a library raises it
        self.peak = max(self.peak, need)

    def memory(self) -> Memory:
        free = self.total - self.weights
        return Memory(used=self.weights, free=free, total=self.total, peak=self.peak)

    def reset_peak(self) -> None:
        self.peak = self.weights

    def plan(self, most: int = 32, margin: float = 0.1) -> tuple[int, str]:
        gauge = startup.Gauge(self.memory, self.reset_peak, lambda: None)
        return startup.make_plan(self.predict, gauge, "text", most, margin, 0)


def test_numbers_are_measured_and_printed() -> None:
    batch, why = Gpu(1000 * MB, 300 * MB, 50 * MB, 20 * MB).plan()
    assert batch == 27, "(1000 - 300 - 100 margin - 50) / 20"
    for number in ("300.0 MB", "50.0 MB", "20.0 MB", "700.0 MB of 1,000.0 MB", "27 inputs"):
        assert number in why, number


@pytest.mark.slow
@given(
    total=st.integers(1000 * MB, 100_000 * MB),
    weights=st.integers(1, 900 * MB),
    per_call=st.integers(0, 200 * MB),
    per_text=st.integers(1, 500 * MB),
    most=st.integers(1, 300),
    margin=st.sampled_from([0.0, 0.05, 0.1, 0.3]),
)
@settings(max_examples=300, deadline=None)
def test_the_batch_fits_with_the_margin_and_one_more_does_not(most: int, margin: float, **parts: int) -> None:
    gpu = Gpu(**parts)
    room = gpu.total - gpu.weights - int(margin * gpu.total)
    try:
        batch, _ = gpu.plan(most, margin)
    except StartRefused:
        assert gpu.per_call + gpu.per_text > room
        return
    assert 1 <= batch <= most
    assert gpu.per_call + batch * gpu.per_text <= room
    if batch < most and most > 1 and gpu.per_call + 2 * gpu.per_text <= gpu.total - gpu.weights:
        assert gpu.per_call + (batch + 1) * gpu.per_text > room


@pytest.mark.parametrize("per_text", [650 * MB, 800 * MB], ids=["does not leave the margin", "runs out"])
def test_start_is_refused_with_numbers_when_not_even_one_fits(per_text: int) -> None:
    with pytest.raises(StartRefused) as refused:
        Gpu(1000 * MB, 300 * MB, 0, per_text).plan()
    for part in ("300.0 MB", "700.0 MB of 1,000.0 MB", "100.0 MB", "MAX_TEXT_CHARS", "MEMORY_MARGIN"):
        assert part in str(refused.value), part


def test_other_errors_of_the_model_are_not_taken_for_lack_of_memory() -> None:
    gpu = Gpu(1000 * MB, 300 * MB, 0, MB)
    gpu.predict = lambda texts: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        gpu.plan()
