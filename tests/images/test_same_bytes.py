"""The same image from any checkout: what the umask, the hour or the order of a folder changes stays outside."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import docker
import pytest
from copying import copy_tree
from image_tools import build, pack, push
from image_tools.catalog import DEFAULT_REGISTRY, FOLDER, ROOT
from image_tools.debian import FILE_TIME, write_hosts
from image_tools.plan import write_bake_file

from .conftest import CATALOG, ROWS

NAME = "plain-cu13"


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
    image = text.replace(text[text.index("FROM os AS native") : text.index("FROM os AS packages")], "")
    copies = [line for line in image.splitlines() if line.startswith("COPY ")]
    assert copies == ["COPY --link --from=plan hosts/ /"], "the plan has modes and times of its own, a checkout has not"


@pytest.mark.parametrize("umask", [0o077, 0o000], ids=oct)
def test_the_file_that_is_copied_has_fixed_times_and_modes(umask: int, tmp_path: Path) -> None:
    old = os.umask(umask)
    try:
        write_hosts(tmp_path / "hosts")
    finally:
        os.umask(old)
    folder, file = oct(0o40755), oct(0o100644)
    assert modes(tmp_path / "hosts") == {".": folder, "etc": folder, "etc/hosts": file}
    times = {path.stat().st_mtime for path in (tmp_path / "hosts", *(tmp_path / "hosts").rglob("*"))}
    assert times == {FILE_TIME}


@pytest.mark.images
@pytest.mark.row(NAME)
@pytest.mark.skipif(NAME not in ROWS, reason=f"IMAGE chose another image than {NAME}")
def test_two_builds_without_a_cache_give_the_same_image(client: docker.DockerClient, tmp_path: Path) -> None:
    """The smallest row, by its ID: the digest of its configuration, which names every layer.

    Where other images are built beside it, the engine may write a layer in another order (docs/decisions/0023): then by
    the form in which both are pushed.
    """
    bake = ROOT / write_bake_file(CATALOG, DEFAULT_REGISTRY)
    tag = build.local_tag(CATALOG, NAME, DEFAULT_REGISTRY)
    found = []
    for number in range(2):
        command = ["docker", "buildx", "bake", "--file", str(bake), "--progress=plain", "--no-cache", "--load", NAME]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        image = client.images.get(tag)
        image.tag("test-same-bytes", str(number))
        found.append(image.id)
    try:
        if found[0] != found[1]:
            forms = []
            for number in range(2):
                archive = push.save(f"test-same-bytes:{number}", tmp_path)
                forms.append(pack.layers_of(archive))
            assert (forms[0][0], forms[0][1]["created"]) == (forms[1][0], forms[1][1]["created"])
    finally:
        for number in range(2):
            client.images.remove(f"test-same-bytes:{number}", force=True)
