"""Figures in README and docs come from files of results, which generated blocks show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docs.figures import plots
from docs.figures.__main__ import IN_PAGES
from docs.figures.blocks import BLOCK, fill, pages
from tests.conftest import ROOT

RESULTS = sorted([*ROOT.glob("benchmarks/results/*.json"), *ROOT.glob("benchmarks/*/result*.json")])
WORDS = re.compile(r"not yet run on a GPU", re.IGNORECASE)
NEEDS_A_GPU = {  # a page that claims what only a GPU can prove, and the beginning of the file that will prove it
    "README.md": "",
    "docs/gpu-smoke.md": "gpu-smoke",
    "docs/base-images.md": "image",
    "docs/drivers.md": "image",
    "docs/batch.md": "workloads",
    "docs/service.md": "workloads",
    "docs/kubernetes.md": "kubernetes",
    "docs/performance.md": "",
}


def name(page: Path) -> str:
    """Return a page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def test_generated_blocks_are_fresh() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert fill(text, IN_PAGES) == text, f"{name(page)} differs from its result files: run make figures"
        assert text.count("<!-- made by make figures: ") == len(BLOCK.findall(text)), f"{name(page)}: no end"


def test_pictures_are_drawn_from_the_committed_results() -> None:
    for picture, (source, _) in plots.PLOTS.items():
        drawn = plots.drawn_from(ROOT / "docs" / picture)
        assert drawn == plots.fingerprint(source), f"docs/{picture} is old: run make figures"


def objects(text: str) -> list[dict[str, Any]]:
    """Return every object in a JSON text."""
    found: list[dict[str, Any]] = []
    json.loads(text, object_pairs_hook=lambda pairs: found.append(dict(pairs)) or found[-1])
    return found


def test_a_result_describes_its_machine_and_names_no_place_on_it() -> None:
    for result in RESULTS:
        text = result.read_text(encoding="utf-8")
        found = [one["machine"] for one in objects(text) if "machine" in one]
        assert found, f"{name(result)}: no machine"
        for machine in found:
            assert {"cpu", "cores", "memory_gib"} <= machine.keys(), f"{name(result)}: {machine}"
        assert not re.search(r'"/(?:home|root|work|tmp|usr)/', text), f"{name(result)}: a path of the machine"


def test_a_page_says_what_was_not_run_on_a_gpu_until_there_is_evidence() -> None:
    for page, begins in NEEDS_A_GPU.items():
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        evidence = sorted(name(path) for path in ROOT.glob(f"docs/evidence/{begins}*.json"))
        assert evidence or WORDS.search(text), f"{page} claims what only a GPU can prove, without a run on one"
        missing = [path for path in evidence if path not in text]
        assert not missing, f"{page} does not name {missing}"
