"""Compare workers of one machine with the same job on a Ray cluster there; write benchmarks/results/batch-ray.json.

usage: python -m benchmarks.batch.on_ray [--rounds N]

Both have two workers with a core each and write the same bytes, which is checked. The cluster has two nodes on this
machine and is up before the first run. The model is the plain starting model. The clock counts, since the processes of
a cluster are not those of the command: "seconds" of each round, and "start_seconds" of a run without rows.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from copier import run_copy

from benchmarks.result_files import machine, write_result
from benchmarks.texts import even
from tests.batch.ray_cluster import RAY, Cluster, head, install_ray

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "benchmarks" / "results" / "batch-ray.json"
ROWS, WORKERS = 500_000, 2


def seconds(cluster: Cluster, source: Path, output: Path, *options: str) -> float:
    """Run the job once; return how long it took."""
    own = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    own["PYTHONPATH"] = f"{cluster.child / 'src'}{os.pathsep}{ROOT / 'runtime' / 'src'}"
    command = [cluster.python, "-m", "gpu_repo_runtime.batch", "bench", "run"]
    command += ["--device", "cpu", "--input", source, "--output", output]
    begin = time.monotonic()
    subprocess.run([*command, *options], env=cluster.environment | own, check=True, capture_output=True)
    return round(time.monotonic() - begin, 2)


def digest(output: Path) -> str:
    """Return a checksum of the result."""
    found = hashlib.sha256()
    for path in sorted((output / "data").iterdir()):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def measured(cluster: Cluster, folder: Path, rounds: int) -> dict[str, object]:
    """Run both ways in turn; return their times."""
    sources = {"seconds": folder / "rows.parquet", "start_seconds": folder / "nothing.parquet"}
    pq.write_table(pa.table({"text": even(ROWS)}), sources["seconds"], row_group_size=50_000)
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), sources["start_seconds"])
    ways = {
        "workers of this machine": ("--workers", str(WORKERS)),
        "on Ray": ("--workers", str(WORKERS), "--on", f"ray://127.0.0.1:{cluster.client}"),
    }
    found: dict[str, dict[str, list[float]]] = {way: {kind: [] for kind in sources} for way in ways}
    results = set()
    for number in range(rounds):
        for place, (way, options) in enumerate(ways.items()):
            for kind, source in sources.items():
                output = folder / f"out-{number}-{place}-{kind}"
                found[way][kind].append(seconds(cluster, source, output, *options))
                print(way, kind, found[way][kind][-1], flush=True)
                if kind == "seconds":
                    results.add(digest(output))
    if len(results) != 1:
        sys.exit("the results are not the same")
    for times in found.values():
        net = statistics.median(times["seconds"]) - statistics.median(times["start_seconds"])
        times["rows_per_second"] = [round(ROWS / net, 1)]
    return {"rows": ROWS, "workers": WORKERS, "ways": found}


def main() -> None:
    """Start a cluster of two nodes and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        answers = {"project_name": "bench", "project_type": "batch", "framework": "plain"}
        run_copy(str(ROOT), folder / "child", data=answers, defaults=True, quiet=True, vcs_ref="HEAD")
        install_ray(folder / "ray")
        with head(folder / "ray" / "bin" / "python", folder / "child") as cluster:
            cluster.join()
            cluster.has(2)
            found = measured(cluster, folder, options.rounds)
    write_result(TARGET, found | {"ray": RAY, "machine": machine(("pyarrow", "numpy"))})


if __name__ == "__main__":
    main()
