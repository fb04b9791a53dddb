"""Ways to run the same model over the same Parquet file; each prints its seconds, model loading not counted.

usage: contestants.py bare|pandas|ray INPUT OUTPUT BATCH     (PYTHONPATH holds the package `bench` with the model)
"""

import json
import os
import sys
import time
from pathlib import Path

import torch

CORES = int(os.environ.get("CORES", "1"))
torch.set_num_threads(CORES)

Time = tuple[float, float]


def now() -> Time:
    """Return the seconds of the clock and those that all threads of this process have computed."""
    return time.perf_counter(), time.process_time()


def since(start: Time) -> Time:
    """Return the seconds since then."""
    return time.perf_counter() - start[0], time.process_time() - start[1]


def load():  # type: ignore[no-untyped-def]
    """Return the model, ready on the CPU."""
    from bench.model import Model
    from gpu_repo_runtime.testing import loaded

    model = loaded(Model, "cpu")
    model.predict(list(model.examples))
    return model


def bare(source: Path, output: Path, size: int) -> Time:
    """The model alone: texts in memory, results thrown away."""
    import pyarrow.parquet as pq

    model = load()
    texts = pq.read_table(source)["text"].to_pylist()
    start = now()
    for position in range(0, len(texts), size):
        model.predict(texts[position : position + size])
    return since(start)


def pandas(source: Path, output: Path, size: int) -> Time:
    """What a notebook does: read everything, loop, put the answers beside the rows, write everything."""
    import pandas as pd

    model = load()
    start = now()
    frame = pd.read_parquet(source)
    answers: list[dict] = []
    for position in range(0, len(frame), size):
        answers += model.predict(frame["text"].iloc[position : position + size].tolist())
    pd.concat([frame, pd.DataFrame(answers)], axis=1).to_parquet(output)
    return since(start)


def ray(source: Path, output: Path, size: int) -> Time:
    """Ray Data with an actor for each core that holds the model; its start and that of the actors are not counted."""
    import ray
    from ray.data import ActorPoolStrategy

    class Predictor:
        def __init__(self) -> None:
            torch.set_num_threads(1)
            self.model = load()

        def __call__(self, batch: dict) -> dict:
            answers = self.model.predict(batch["text"].tolist())
            return {"text": batch["text"], **{key: [a[key] for a in answers] for key in answers[0]}}

    # Beside the actors there has to be room for reading and writing.
    processors = CORES + 2 if CORES > 1 else 2
    ray.init(num_cpus=processors, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def predict(data: ray.data.Dataset, folder: Path) -> float:
        start = time.perf_counter()
        actors = ActorPoolStrategy(size=CORES)
        data.map_batches(Predictor, compute=actors, batch_size=size).write_parquet(str(folder))
        return time.perf_counter() - start

    rows = ray.data.read_parquet(str(source))
    if CORES > 1:
        # A file comes as one block, which one actor would do alone.
        rows = rows.repartition(4 * CORES)
    one_row = ray.data.from_items([{"text": "warm up"}])
    predict(one_row, output.with_suffix(".first"))
    # Each call starts an actor that loads the model, which is not what is compared.
    without_rows = predict(one_row, output.with_suffix(".second"))
    # The work is done in other processes, so this one's processor time says nothing.
    return predict(rows, output) - without_rows, 0.0


if __name__ == "__main__":
    way, source, output, size = sys.argv[1:]
    seconds, processor = {"bare": bare, "pandas": pandas, "ray": ray}[way](Path(source), Path(output), int(size))
    print(json.dumps({"seconds": seconds, "cpu": processor}))
