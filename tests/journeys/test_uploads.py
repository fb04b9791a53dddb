"""I upload images, send them through a websocket, and log requests: docs/how-to/upload-files-and-log-requests.md."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.journeys.blocks import blocks
from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/upload-files-and-log-requests.md"


def test_my_image_model_passes_the_starting_tests(child: Child) -> None:
    images = blocks(ROOT / "docs/how-to/predict-on-a-folder-of-images.md")
    [model] = [block.text for block in images if block.value == "src/<package>/model.py"]
    child.path("src/<package>/model.py").write_text(model)
    child.follow("1. Write the model")


def test_uploads_and_websockets_are_answered_and_logged(child: Child) -> None:
    child.follow("2. Add the routes")


def test_lint_accepts_what_the_page_shows(child: Child) -> None:
    child.sh("scripts/lint", expect="all good")
