"""The same lines in every format that the job reads."""

from __future__ import annotations

import bz2
import csv
import gzip
from pathlib import Path

import pyarrow as pa

from tests.batch.conftest import texts, write_jsonl, write_parquet

LINES = [*texts(120), 'with "quotes", commas\tand tabs', "", "Gruß aus Köln 🙂"]


def write(path: Path) -> Path:
    """Write LINES in the format that the name tells."""
    kind = path.name.split(".")[1]
    if kind == "parquet":
        return write_parquet(path, LINES, 50)
    if kind == "jsonl":
        write_jsonl(path.with_name("plain.jsonl"), LINES)
        content = path.with_name("plain.jsonl").read_bytes()
    elif kind == "txt":
        content = "".join(line + "\n" for line in LINES).encode()
    else:
        with path.with_name("plain.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",")
            writer.writerows([["id", "text"], *enumerate(LINES)])
        content = path.with_name("plain.csv").read_bytes()
    for suffix, compress in (("gz", gzip.compress), ("bz2", bz2.compress), ("zst", pa.Codec("zstd").compress)):
        if path.name.endswith(suffix):
            content = compress(content)
            content = content if isinstance(content, bytes) else content.to_pybytes()
    path.write_bytes(content)
    return path
