"""Profile the predictions of a model: what takes the time, and what memory a batch needs.

A table on the screen; profile.json and the trace of a profiler are in the folder of --out.
"""

import argparse
import importlib
import importlib.util
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import device, weights
from .profilers import Measured, peak, report, table, traced

SECONDS = 1.0  # for each batch size; one call at least
Predict = Callable[[list[Any]], Any]


class ProfileError(Exception):
    """Nothing was measured; the message says why and what to do."""


def model_of(package: str) -> Any:
    """Return the model of the project, not loaded yet. Raises ProfileError."""
    if Path("src").is_dir():
        sys.path.insert(0, "src")
    try:
        return importlib.import_module(f"{package}.model").Model()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ProfileError(f"src/{package}/model.py cannot be used: {error}") from error


def inputs_of(model: Any, given: Path | None) -> tuple[list[Any], Predict]:
    """Return the inputs to predict, the lines of a JSON Lines file or the model's own, and how. Raises ProfileError.

    Requests choose no parameters here: a model that takes some gets their defaults.
    """
    try:
        if given:
            found = [json.loads(line) for line in given.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
        else:
            found = list(getattr(model, "examples", ()))
    except (OSError, ValueError, TypeError) as error:
        raise ProfileError(f"{given or 'Model.examples'}: {error}") from error
    if not found:
        raise ProfileError(f"{given or 'Model.examples'} has no inputs: give some as JSON Lines with --input FILE")
    if not importlib.util.find_spec("pydantic"):
        return found, lambda batch: model.predict([*batch])
    from .interface import Interface

    try:
        interface = Interface(model)
        return interface.held(found) if given else interface.examples(), interface.call
    except TypeError as error:
        raise ProfileError(str(error)) from error


def measure(predict: Predict, chosen: str, size: int, inputs: Sequence[Any]) -> Measured:
    """Return rate and memory of one batch size, over calls that last about a second."""
    batch = list(itertools.islice(itertools.cycle(inputs), size))
    device.reset_peak(chosen)
    begin, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() - begin < SECONDS:
        predict(batch)
        calls += 1
    rate = calls * size / (time.perf_counter() - begin)
    return Measured(size, rate, peak(chosen))


def profile(options: argparse.Namespace) -> str:
    """Measure, write the files, return the table. Raises ProfileError, DeviceError, WeightsError and OSError."""
    options.out.mkdir(parents=True, exist_ok=True)
    model = model_of(options.package)
    chosen = device.choose(options.device)
    weights.load(model, chosen)
    inputs, predict = inputs_of(model, options.input)
    measured: list[Measured] = []
    try:
        predict(list(inputs[:1]))
        for size in sorted(set(options.batch_sizes)):
            measured.append(measure(predict, chosen, size, inputs))
    except Exception as error:
        if not device.is_out_of_memory(error) or not measured:
            raise ProfileError(f"the model fails on its inputs: {type(error).__name__}: {error}") from error
        device.release(chosen)
    batch = list(itertools.islice(itertools.cycle(inputs), measured[-1].size))
    kinds, operators = traced(lambda: predict(batch), chosen, options.out)
    numbers = json.dumps(report(measured, chosen, kinds), indent=1)
    (options.out / "profile.json").write_text(f"{numbers}\n", encoding="utf-8")
    return f"{table(measured, chosen)}\n\nwhere the time of a batch of {measured[-1].size} goes\n{operators}"


def main(words: Sequence[str]) -> int:
    """Read the command line and profile; return the exit code: 0 done, 1 not measured, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="scripts/profile", description=__doc__)
    parser.add_argument("--package", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--input", type=Path, metavar="FILE", help="inputs as JSON Lines; else Model.examples")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32, 128], metavar="N")
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default=os.environ.get("DEVICE") or "auto")
    parser.add_argument("--out", type=Path, default=Path("build/profile"))
    options = parser.parse_args(words)
    if min(options.batch_sizes) < 1:
        parser.error("--batch-sizes are whole numbers from 1 on")
    try:
        print(profile(options))
    except (ProfileError, device.DeviceError, weights.WeightsError, OSError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    print(f"\nprofile: {options.out} contains profile.json and the trace")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
