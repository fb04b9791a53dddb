"""Profile the predictions of a model: what takes the time, what memory a batch needs, which GPU it fits.

A table on the screen; profile.json, profile.png and the trace of the framework's profiler in the folder of --out.
"""

import argparse
import importlib
import importlib.util
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import capacity, device, weights

SECONDS = 1.0  # for each batch size; one call at least


class ProfileError(Exception):
    """Nothing was measured; the message says why and what to do."""


def load(package: str, requested: str) -> tuple[Any, str, int]:
    """Return the loaded model, its device, and the bytes that this process held before. Raises ProfileError."""
    if Path("src").is_dir():
        sys.path.insert(0, "src")
    try:
        model = importlib.import_module(f"{package}.model").Model()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ProfileError(f"src/{package}/model.py cannot be used: {error}") from error
    try:
        chosen = device.choose(requested)
    except device.DeviceError as error:
        raise ProfileError(str(error)) from error
    capacity.reset_peak(chosen)
    before = capacity.peak(chosen)
    try:
        weights.load(model, chosen)
    except weights.WeightsError as error:
        raise ProfileError(str(error)) from error
    return model, chosen, before


Predict = Callable[[list[Any]], Any]


def inputs_of(model: Any, given: Path | None) -> tuple[list[Any], Predict]:
    """Return the inputs to predict, the lines of a JSON Lines file or the model's own, and how. Raises ProfileError.

    Requests choose no parameters here: a model that takes some gets their defaults.
    """
    try:
        found = list(getattr(model, "examples", ())) if given is None else _lines(given)
    except (OSError, ValueError, TypeError) as error:
        raise ProfileError(f"--input {given}: {error}" if given else f"Model.examples: {error}") from error
    if not found:
        where = "there are no Model.examples" if given is None else f"{given} is empty"
        raise ProfileError(f"{where}: give inputs as JSON Lines with --input FILE")
    if not importlib.util.find_spec("pydantic"):
        return found, lambda batch: model.predict([*batch])
    from .contract import ContractError
    from .interface import Interface

    try:
        interface = Interface(model)
        return interface.examples() if given is None else interface.held(found), interface.call
    except (ContractError, TypeError) as error:
        raise ProfileError(str(error)) from error


def _lines(file: Path) -> list[Any]:
    """Return the values of a file of JSON Lines. Raises OSError, or ValueError with the number of the line."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").split("\n"), 1):
        try:
            found += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise ValueError(f"line {number} is no JSON: {error}") from None
    return found


def measure(predict: Predict, chosen: str, size: int, inputs: Sequence[Any]) -> capacity.Measured:
    """Return rate and memory of one batch size, over calls that last about a second."""
    batch = list(itertools.islice(itertools.cycle(inputs), size))
    capacity.reset_peak(chosen)
    begin, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() - begin < SECONDS:
        predict(batch)
        calls += 1
    rate = calls * size / (time.perf_counter() - begin)
    return capacity.Measured(size, rate, capacity.peak(chosen))


def profile(options: argparse.Namespace) -> str:
    """Measure, write the files, return the table. Raises ProfileError."""
    options.out.mkdir(parents=True, exist_ok=True)
    model, chosen, before = load(options.package, options.device)
    inputs, predict = inputs_of(model, options.input)
    measured = []
    try:
        predict(list(inputs[:1]))
        for size in sorted(set(options.batch_sizes)):
            measured.append(measure(predict, chosen, size, inputs))
    except Exception as error:
        if not device.is_out_of_memory(error) or not measured:
            raise ProfileError(f"the model fails on its inputs: {type(error).__name__}: {error}") from error
        device.release(chosen)
    batch = list(itertools.islice(itertools.cycle(inputs), measured[-1].size))
    kinds, operators = device.traced(lambda: predict(batch), chosen, options.out)
    told = capacity.report(measured, options.gpus, chosen, options.price, before) | {"seconds": kinds}
    (options.out / "profile.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    draw(options.out / "profile.png", kinds, measured)
    return f"{capacity.table(told)}\n\nwhere the time of a batch of {measured[-1].size} goes\n{operators}"


def draw(file: Path, seconds: dict[str, float], measured: Sequence[capacity.Measured]) -> None:
    """Write the chart, or say which package draws it; an older one does not stay."""
    file.unlink(missing_ok=True)
    try:
        file.write_bytes(capacity.chart(seconds, measured))
    except ImportError as error:
        print(f"profile: no chart ({error}): add matplotlib to the group dev in pyproject.toml", file=sys.stderr)


def _above_zero(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} should be such as 1.5")
    return number


def _size(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def main(words: Sequence[str]) -> int:
    """Read the command line and profile; return the exit code: 0 done, 1 not measured, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="scripts/profile", description=__doc__)
    parser.add_argument("--package", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--input", type=Path, metavar="FILE", help="inputs as JSON Lines; else Model.examples")
    parser.add_argument("--batch-sizes", type=_size, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--gpus", type=capacity.gpus_in, default=[], metavar="T4=16,L4=24", help="memory in GiB")
    parser.add_argument("--price", type=_above_zero, default=0.0, help="of an hour: says what a million inputs cost")
    parser.add_argument("--device", choices=["auto", "cuda", "mps", "cpu"], default=os.environ.get("DEVICE") or "auto")
    parser.add_argument("--out", type=Path, default=Path("build/profile"))
    try:
        print(profile(options := parser.parse_args(words)))
    except (ProfileError, OSError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    print(f"\nprofile: {options.out} has the same as profile.json and profile.png, and the trace")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
