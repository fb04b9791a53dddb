"""The same image from any checkout: what the umask, the hour or the order of a folder changes stays outside."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from image_tools.catalog import FOLDER

sys.path.append(str(FOLDER / "recipe" / "finish"))

from copying import copy_tree


def modes(folder: Path) -> dict[str, str]:
    """Return the mode of each file and folder, and of the folder itself."""
    return {str(path.relative_to(folder)): oct(path.stat().st_mode) for path in [folder, *sorted(folder.rglob("*"))]}


@pytest.mark.parametrize("umask", [0o077, 0o027, 0o002, 0o000], ids=oct)
def test_modes_do_not_follow_the_checkouts(umask: int, tmp_path: Path) -> None:
    old = os.umask(umask)
    try:
        (tmp_path / "source" / "layers").mkdir(parents=True)
        (tmp_path / "source" / "layers" / "driver.py").write_text("x = 1\n")
        (tmp_path / "source" / "start").write_text("")
        (tmp_path / "source" / "start").chmod(0o700)
        (tmp_path / "made").mkdir()
        copy_tree(tmp_path / "source", tmp_path / "made")
    finally:
        os.umask(old)
    folder, file = oct(0o40755), oct(0o100644)
    assert modes(tmp_path / "made") == {".": folder, "layers": folder, "layers/driver.py": file, "start": file}


def test_what_is_copied_by_the_recipe_has_a_mode_of_its_own() -> None:
    """COPY into a stage of the image takes the checkout's mode unless it is told one."""
    text = (FOLDER / "Dockerfile").read_text()
    image = text.replace(text[text.index("FROM os AS installer") : text.index("FROM os AS packages")], "")
    copies = [line for line in image.splitlines() if line.startswith("COPY ")]
    assert copies
    assert all("--chmod=" in line for line in copies), copies
