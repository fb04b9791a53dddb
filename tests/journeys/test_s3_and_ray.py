"""I predict on a bucket in shards, and on a folder with Ray: docs/how-to/predict-on-s3-and-ray.md. In order."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from tests.batch.ray_cluster import head
from tests.journeys.child import Child

TYPE = "batch"
PAGE = "how-to/predict-on-s3-and-ray.md"
UPLOAD = """
from pyarrow import fs

store, bucket = fs.FileSystem.from_uri("s3://bucket?allow_bucket_creation=true")
store.create_dir(bucket)
fs.copy_files("texts", f"{bucket}/texts", destination_filesystem=store)
"""
MOTO = ".venv/bin/uv tool run --quiet --from 'moto[server]==5.2.5' moto_server -H 127.0.0.1 -p {port}"


@pytest.fixture(scope="module")
def store(child: Child) -> Iterator[str]:
    """Return the address of moto, which speaks S3; it has its own bucket."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = child.begin(f"exec {MOTO.format(port=port)}", subprocess.DEVNULL)
    child.sh(f"curl --silent --retry 200 --retry-delay 1 --retry-connrefused http://127.0.0.1:{port}/moto-api/")
    yield f"http://127.0.0.1:{port}"
    server.terminate()


def test_my_shards_on_a_bucket_are_one_result(child: Child, store: str) -> None:
    child.path("texts").mkdir()
    for part in range(2):
        lines = [json.dumps({"text": f"word {number}"}) for number in range(500 * part, 500 * part + 500)]
        child.path(f"texts/{part}.jsonl").write_text("\n".join(lines) + "\n")
    child.follow("1. Set the login")
    child.sh(f"echo AWS_ENDPOINT_URL={store} >>.env")
    child.path("upload.py").write_text(UPLOAD)
    child.sh("scripts/shell python upload.py")
    child.follow("2. Run each shard")


def test_ray_makes_the_same_predictions(child: Child) -> None:
    child.sh("scripts/run --input texts --output build/here")
    run = child.blocks.pop()  # the last of "3. On Ray"
    child.follow("3. On Ray")
    with head(child.path(".venv/bin/python"), child.folder) as cluster:
        child.environment |= {name: text for name, text in cluster.environment.items() if name.startswith("RAY_")}
        child.environment["RAY_ADDRESS"] = f"127.0.0.1:{cluster.port}"
        child.sh(run.text, run.where, run.value)
    here, on_ray = (pq.read_table(child.path(f"build/{name}/data")) for name in ("here", "on-ray"))
    assert on_ray.num_rows == 1000
    assert on_ray.equals(here)
