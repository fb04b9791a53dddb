"""Ways to run the model of the package `bench` over a file of texts or numbers, with the results in a Parquet file.

usage: contestants.py bare|ray INPUT OUTPUT BATCH
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.csv as pc
import pyarrow.parquet as pq


def ready() -> Any:
    """Return the model, ready on the CPU."""
    from bench.model import Model
    from gpu_repo_runtime.weights import load

    model = Model()
    load(model, "cpu")
    return model


def inputs(frame: pd.DataFrame) -> Any:
    """Return what the model takes of some rows: their texts, or the table without its id."""
    return frame["text"].tolist() if "text" in frame else frame.drop(columns="id")


def bare(source: str, output: str, size: int) -> None:
    """The model alone: read the file with pyarrow, predict, write nothing."""
    model = ready()
    frame = (pq.read_table(source) if source.endswith(".parquet") else pc.read_csv(source)).to_pandas()
    for position in range(0, len(frame), size):
        model.predict(inputs(frame.iloc[position : position + size]))


def ray(source: str, output: str, size: int) -> None:
    """Ray Data with one actor that has the model. Writes its seconds after its start to OUTPUT.json."""
    import ray

    class Predictor:
        def __init__(self) -> None:
            self.model = ready()

        def __call__(self, batch: pd.DataFrame) -> pd.DataFrame:
            answers = pd.DataFrame(self.model.predict(inputs(batch)))
            return pd.concat([batch.reset_index(drop=True), answers], axis=1)

    def seconds(name: str) -> float:
        """Run over a file next to the input: like the job with a few rows, that of a few is the start of the actor."""
        begun, file = time.perf_counter(), str(Path(source).with_stem(name))
        rows = ray.data.read_parquet(file) if file.endswith(".parquet") else ray.data.read_csv(file)
        actors = ray.data.ActorPoolStrategy(size=1)
        rows.map_batches(Predictor, compute=actors, batch_format="pandas", batch_size=size).write_parquet(output)
        return time.perf_counter() - begun

    begun = time.perf_counter()
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")  # for the actor, and for reading and writing
    seconds("few")
    start, few, whole = time.perf_counter() - begun, seconds("few"), seconds("all")
    Path(f"{output}.json").write_text(json.dumps({"wall_s": whole - few, "start_s": start}))


if __name__ == "__main__":
    way, source, output, size = sys.argv[1:]
    {"bare": bare, "ray": ray}[way](source, output, int(size))
