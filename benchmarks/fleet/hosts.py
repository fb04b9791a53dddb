"""A fleet of 200 children on both code hosts, 20 of them odd, through a good release, a bad one, kills and rollbacks.

The hosts are stand-ins of their HTTP that merge in the bare repositories; the children are small. What must hold
whatever the numbers is asserted on the way. Writes benchmarks/results/fleet-hosts.json.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.result_files import machine, write_result
from tests.updates.fleet_story import play
from tests.updates.odd_children import ODD
from tests.updates.whole_fleet import whole_fleet

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "fleet-hosts.json"


def main() -> None:
    """Play the story and write its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=19)
    options = parser.parse_args()
    if options.children < 200:
        parser.error("--children: with fewer than 200 the odd ones are too large a part of a wave")
    started, load = time.monotonic(), os.getloadavg()[0]
    with TemporaryDirectory(prefix="fleet-") as folder, whole_fleet(Path(folder), options.children) as fleet:
        found = play(fleet, options.kills, random.Random(options.seed))
    share = found["clean_merged"] / found["clean"]
    told: dict[str, object] = {"machine": machine(copier=version("copier"))}
    told |= {"load_before": round(load, 1), "seed": options.seed, "children": options.children}
    told |= {"odd_children": len(ODD), "clean_merged_share": round(share, 3)} | found
    write_result(RESULT, told | {"minutes": round((time.monotonic() - started) / 60, 1)})
    print(RESULT.read_text(encoding="utf-8"), end="")
    sys.exit(0 if share >= 0.95 and found["bad_release_reached"] <= 5 else 1)


if __name__ == "__main__":
    main()
