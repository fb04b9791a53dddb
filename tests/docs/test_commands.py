"""The commands of the documentation do what they say: each that can be run here is run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.answers import TYPES, AnswerSet
from tests.conftest import ROOT
from tests.docs.blocks import IN_CHILDREN, all_blocks, blocks_of
from tests.journeys.blocks import Block
from tests.journeys.child import Child
from tests.shared import program

BLOCKS = all_blocks()
RUN = [page for page, blocks in BLOCKS.items() if any(block.mark != "not run" for block in blocks)]
GPU_SMOKE = '#!/usr/bin/env bash\nPYTHONPATH={root}/base-images exec {python} -m gpu_smoke "$@"\n'


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Child]:
    """Return a shell in a folder that the test makes, with gpu-smoke and python on its path."""
    programs = tmp_path / "bin"
    program(programs / "gpu-smoke", GPU_SMOKE.format(root=ROOT, python=sys.executable))
    (programs / "python").symlink_to(shutil.which("python3") or sys.executable)
    child = Child(tmp_path / "family")
    child.environment["PATH"] = f"{programs}:{os.environ['PATH']}"
    yield child
    child.stop()


def parent_copy(template: Path, folder: Path) -> Path:
    """Return a copy of this repository with the environment of this one, which make takes as it is."""
    copy = folder / "family"
    shutil.copytree(template, copy)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    for lock in ("requirements-dev.lock", "templates/shared/scripts/tools/uv.lock"):
        os.utime(copy / lock, (0, 0))  # else make would set up the environment of this repository again
    return copy


def run(child: Child, block: Block) -> None:
    """Run a block, in the background if it names a path to wait for."""
    if block.mark == "start":
        child.serve(block.text, block.value)
    elif block.mark == "run":
        child.sh(block.text, block.where)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in RUN if page not in IN_CHILDREN])
def test_the_commands_of_a_page(template: Path, here: Child, page: str) -> None:
    parent_copy(template, here.folder.parent)
    for block in BLOCKS[page]:
        run(here, block)


@pytest.mark.release
@pytest.mark.parametrize("kind", TYPES)
def test_the_commands_of_a_childs_readme_and_of_the_pages_about_it(
    render: Callable[[AnswerSet], Path], here: Child, kind: str
) -> None:
    shutil.copytree(render(AnswerSet(kind, "plain")), here.folder)
    here.sh("git init -q -b main && git add -A && git -c user.name=Me -c user.email=me@example.com commit -qm Start")
    readme = (here.folder / "README.md").read_text(encoding="utf-8").partition("## Add your own model")[0]
    blocks = blocks_of(readme, f"README.md of a {kind}")
    assert len(blocks) >= 2, f"a {kind}'s README.md does not begin with commands"
    for block in [*blocks, *(block for page in RUN if IN_CHILDREN.get(page) == kind for block in BLOCKS[page])]:
        if block.text != "scripts/run\n":
            run(here, block)
        elif not here.service:
            here.serve(block.text, "/readyz")
