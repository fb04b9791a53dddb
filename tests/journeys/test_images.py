"""I predict on a folder of images, one of them broken: docs/how-to/predict-on-a-folder-of-images.md."""

from __future__ import annotations

from tests.journeys.child import Child

TYPE = "batch"
PAGE = "how-to/predict-on-a-folder-of-images.md"
PHOTOS = """
from pathlib import Path
from wine_grapes.model import png

Path("photos").mkdir()
for number in range(20):
    Path(f"photos/{number:02}.png").write_bytes(png(51 * number % 256) if number != 7 else b"broken")
"""


def test_my_image_model_passes_the_starting_tests(child: Child) -> None:
    child.follow("1. Write model.py")


def test_each_photo_has_its_prediction_and_the_broken_one_is_named(child: Child) -> None:
    child.path("photos.py").write_text(PHOTOS)
    child.sh(".venv/bin/python photos.py")
    child.follow("2. Pack the files")
    shown = child.follow("3. Run the job")
    assert "{'row': 7, 'reason': " in shown, shown
    assert "the image cannot be read" in shown, shown
