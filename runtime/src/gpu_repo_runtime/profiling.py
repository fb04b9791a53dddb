"""Profile the predictions of a model on its examples: what takes the time, and what memory a batch needs.

A table on the screen; profile.json and the trace of a profiler are in the folder of --out.
"""

import argparse
import cProfile
import importlib.util
import io
import itertools
import json
import os
import pstats
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import device, weights
from .contract import ContractError, import_model

SECONDS = 1.0  # for each batch size; one call at least
UNPROVEN = "measured without an NVIDIA GPU: run it on one to see its speed and memory"


@dataclass(frozen=True)
class Measured:
    """Inputs per second of a batch size in the model, and the highest memory in bytes."""

    size: int
    rate: float
    memory: int


def rate_and_memory(work: Callable[[], object], inputs: int, chosen: str, seconds: float = 0) -> tuple[float, int]:
    """Return inputs per second and bytes of work that predicts so many inputs, called once and for some seconds.

    The memory is the highest one: of the GPU during the work, else of the process since its start.
    """
    device.reset_peak(chosen)
    begin, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() - begin < seconds:
        work()
        calls += 1
    rate = calls * inputs / (time.perf_counter() - begin)
    memory = device.memory(chosen)
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return rate, memory.peak if memory else process


def table(sizes: Sequence[Measured], chosen: str) -> str:
    """Return rate and memory of each batch size as text."""
    lines = [f"{one.size:10} {one.rate:9,.0f} {one.memory / 2**20:10,.0f} MiB" for one in sizes]
    return "\n".join(["batch size  inputs/s    peak memory", *lines, *([] if chosen == "cuda" else [UNPROVEN])])


def traced(work: Callable[[], object], chosen: str, folder: Path) -> str:
    """Do the work under a profiler; return a table of what took most.

    PyTorch's trace goes to trace.json in the folder, for ui.perfetto.dev or chrome://tracing. Python's profile goes to
    profile.pstats. TensorFlow and JAX have profilers of their own, whose traces need a viewer.
    """
    if device.framework() == "torch":
        return _traced_by_torch(work, chosen, folder)
    profiler, text = cProfile.Profile(), io.StringIO()
    profiler.runcall(work)
    profiler.dump_stats(folder / "profile.pstats")
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(8)
    return "\n".join(filter(str.strip, text.getvalue().splitlines()))


def _traced_by_torch(work: Callable[[], object], chosen: str, folder: Path) -> str:
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if chosen == "cuda" else [])]
    with profile(activities=activities) as profiler:
        work()
        if chosen == "cuda":
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    order = "self_device_time_total" if chosen == "cuda" else "self_cpu_time_total"
    table: str = profiler.key_averages().table(sort_by=order, row_limit=8, max_name_column_width=40)
    return table


def examples_of(model: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return the model's examples and what predicts them; parameters are the defaults. Raises ContractError."""
    if importlib.util.find_spec("pydantic"):
        from .interface import Interface

        interface = Interface(model)
        return interface.examples(), interface.call
    examples = list(getattr(model, "examples", ()))  # a library may do without pydantic
    if not examples:
        raise ContractError("there are no Model.examples: write examples = (one input, another one)")
    return examples, lambda batch: model.predict([*batch])


def profile_model(options: argparse.Namespace) -> str:
    """Measure, write the files, return the table.

    Raises ContractError, DeviceError, WeightsError, OSError, and what the owner's code raises.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, "src")
    model = import_model(options.package)
    chosen = device.choose(options.device)
    weights.load(model, chosen)
    examples, predict = examples_of(model)
    sizes, batch = list[Measured](), examples[:1]
    try:
        predict(batch)
        for size in sorted(set(options.batch_sizes)):
            batch = list(itertools.islice(itertools.cycle(examples), size))
            sizes.append(Measured(size, *rate_and_memory(partial(predict, batch), size, chosen, SECONDS)))
    except Exception as error:
        if not device.is_out_of_memory(error) or not sizes:
            raise
        device.release(chosen)
    operators = traced(partial(predict, batch[: sizes[-1].size]), chosen, options.out)
    numbers = {"device": chosen, "batches": [asdict(one) for one in sizes]}
    (options.out / "profile.json").write_text(f"{json.dumps(numbers, indent=1)}\n", encoding="utf-8")
    return f"{table(sizes, chosen)}\n\nwhere the time of a batch of {sizes[-1].size} goes\n{operators}"


def main(words: Sequence[str]) -> int:
    """Read the command line and profile; return the exit code: 0 done, 1 not measured, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="scripts/profile", description=__doc__)
    parser.add_argument("--package", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32, 128], metavar="N")
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default=os.environ.get("DEVICE") or "auto")
    parser.add_argument("--out", type=Path, default=Path("build/profile"))
    options = parser.parse_args(words)
    if min(options.batch_sizes) < 1:
        parser.error("--batch-sizes are whole numbers from 1 on")
    try:
        print(profile_model(options))
    except (ContractError, device.DeviceError, weights.WeightsError, OSError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    print(f"\nprofile: {options.out} contains profile.json and the trace")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
