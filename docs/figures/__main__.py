"""Write every generated block of README.md and docs/ anew, and draw the charts: `make figures`."""

from __future__ import annotations

from functools import partial

from docs.figures import adoptions, catalogue, commands, measured, on_gpu, plots
from docs.figures.blocks import ROOT, fill, pages

MAKERS = {
    "image-states": catalogue.states,
    "generations": catalogue.generations,
    "compatibility": catalogue.compatibility,
    "decisions": catalogue.decisions,
    "exits": commands.exits,
    "service-reading": measured.service_reading,
    "service-gpu": on_gpu.gpu_service,
    "batch-gpu": on_gpu.gpu_batch,
    "training-gpu": on_gpu.gpu_training,
    "batch-reading": measured.batch_reading,
    "image-sizes": measured.images,
    "fleet": measured.fleet,
    "adoptions": adoptions.adoptions,
    "gpu-smoke": measured.gpu_smoke,
    "gpu-evidence": measured.gpu_evidence,
}
# Pages leave out the rows of a company, which its site shows: so upstream's next release merges.
IN_PAGES = MAKERS | {
    "image-states": partial(catalogue.states, own=False),
    "generations": partial(catalogue.generations, own=False),
}


def main() -> None:
    """Write what changed and say so."""
    for page in pages():
        old = page.read_text(encoding="utf-8")
        new = fill(old, IN_PAGES)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(ROOT))
    plots.draw()


if __name__ == "__main__":
    main()
