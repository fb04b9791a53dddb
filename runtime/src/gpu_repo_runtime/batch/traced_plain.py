"""Python's own profiler around some work: NumPy has none, and CuPy's calls show up in it too."""

import cProfile
import io
import pstats
from collections.abc import Callable
from pathlib import Path

COPIES = ("asarray", "asnumpy", "get")


def traced(work: Callable[[], object], device: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work; return seconds by kind ("copy", "compute") and a table of the functions that took most.

    The profile goes to profile.pstats in the folder. A copy is what CuPy's asarray, asnumpy and get take; a GPU works
    on while Python goes ahead, so that waiting for its results counts as a copy too.
    """
    profiler = cProfile.Profile()
    profiler.runcall(work)
    profiler.dump_stats(folder / "profile.pstats")
    text = io.StringIO()
    statistics = pstats.Stats(profiler, stream=text).sort_stats("tottime")
    statistics.print_stats(8)
    rows = statistics.stats.items()  # type: ignore[attr-defined]  # (file, line, function) -> (..., own, with callees, ...)
    copy = sum(values[3] for (file, _, name), values in rows if "cupy" in file and name in COPIES)
    table = "\n".join(line for line in text.getvalue().splitlines() if line.strip())
    return {"copy": copy, "compute": statistics.total_tt - copy}, table  # type: ignore[attr-defined]
