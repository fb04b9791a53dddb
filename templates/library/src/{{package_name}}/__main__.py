"""Print the lines of a file that are closest to a text."""

import argparse
import sys
from pathlib import Path

from . import device
from .model import Model
from .search import top_k


def main() -> int:
    """Read the arguments, search, print; return the exit code."""
    parser = argparse.ArgumentParser(prog="search", description=__doc__)
    parser.add_argument("text", help="what to search for")
    parser.add_argument("file", type=Path, help="file with one text a line, in UTF-8")
    parser.add_argument("-k", type=int, default=5, help="how many lines to print (default: 5)")
    parser.add_argument("--device", choices=["auto", "cuda", "mps", "cpu"], default="auto", help="where to compute")
    options = parser.parse_args()
    try:
        lines = [line for line in options.file.read_text(encoding="utf-8").splitlines() if line.strip()]
        place = device.choose(options.device)
    except (OSError, UnicodeDecodeError, device.DeviceError) as error:
        sys.exit(f"search: {error}")
    if not lines or options.k < 1:
        sys.exit(f"search: nothing to do: {options.file} has {len(lines)} lines and -k is {options.k}")
    model = Model()
    model.load(place)
    scores, rows = top_k(model.embed([options.text]), model.embed(lines), options.k)
    for score, row in zip(map(float, scores[0]), map(int, rows[0]), strict=True):
        print(f"{score:.3f}  {lines[row]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
