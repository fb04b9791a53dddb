"""The same image from any checkout: what the umask, the hour or the order of a folder changes stays outside."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from image_tools import build
from image_tools.build_plan import FILE_TIME, MOUNTED, build_options, write_root
from image_tools.catalog import DEFAULT_REGISTRY, FOLDER, ROOT

from .conftest import CATALOG, ROWS, Built

NAME = "plain-cu13"


def modes(folder: Path) -> dict[str, str]:
    """Return the mode of each file and folder, and of the folder itself."""
    return {str(path.relative_to(folder)): oct(path.stat().st_mode) for path in [folder, *sorted(folder.rglob("*"))]}


def test_what_is_copied_by_the_recipe_has_a_mode_of_its_own() -> None:
    """COPY into a stage of the image takes the checkout's mode unless it is told one."""
    text = (FOLDER / "Dockerfile").read_text()
    image = text.replace(text[text.index("FROM os AS installer") : text.index("FROM os AS packages")], "")
    copies = [line for line in image.splitlines() if line.startswith("COPY ")]
    assert copies == ["COPY --link --from=plan root/ /"], "the plan has modes and times of its own, a checkout has not"


@pytest.mark.parametrize("umask", [0o077, 0o000], ids=oct)
def test_what_the_image_starts_with_has_fixed_times_and_modes(umask: int, tmp_path: Path) -> None:
    """And every folder that a step mounts something on: one that a mount makes would have the time of the build."""
    old = os.umask(umask)
    try:
        write_root(tmp_path / "root")
    finally:
        os.umask(old)
    folder, file = oct(0o40755), oct(0o100644)
    folders = dict.fromkeys((".", "etc", "build", *(f"build/{name}" for name in MOUNTED)), folder)
    assert modes(tmp_path / "root") == folders | {"etc/hosts": file}
    assert {path.stat().st_mtime for path in (tmp_path / "root", *(tmp_path / "root").rglob("*"))} == {FILE_TIME}
    targets = re.findall(r"target=(\S+?)[, ]", (FOLDER / "Dockerfile").read_text())
    assert set(targets) - {"/etc/pip.conf"} == {f"/build/{name}" for name in MOUNTED}


def files_of(saved: Path) -> list[dict[str, tuple[object, ...]]]:
    """Return the files of each layer of an image that `docker save` wrote, with what makes them equal."""
    found = []
    with tarfile.open(saved) as image:
        [told] = json.load(image.extractfile("manifest.json") or io.BytesIO())
        for name in told["Layers"]:
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                files = {}
                for one in (member for member in layer if not member.isdir()):
                    content = layer.extractfile(one).read() if one.isfile() else b""  # type: ignore[union-attr]
                    digest = hashlib.sha256(content).hexdigest()
                    files[one.name] = (one.type, one.mode, one.uid, one.gid, one.mtime, one.linkname, digest)
                found.append(files)
    return found


@pytest.mark.images
@pytest.mark.parametrize("image", [NAME] if NAME in ROWS else [], indirect=True, scope="session")
def test_a_build_without_a_cache_gives_the_same_image(image: Built, tmp_path: Path) -> None:
    """The smallest row, by its ID: the digest of its configuration, which names every layer.

    Where other images are built beside it, the engine may write a layer in another order (docs/decisions/0023): then by
    the files of each layer.
    """
    tags = [image.tag, "test-same-bytes:again"]
    options = [each.replace(*tags) for each in build_options(CATALOG, image.row, DEFAULT_REGISTRY)]
    command = ["docker", "buildx", "build", "--progress=plain", "--no-cache", "--load", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    try:
        if image.client.images.get(tags[1]).id != image.image.id:
            layers = list(zip(*(files_of(build.save(tag, tmp_path)) for tag in tags), strict=True))
            names = [(name, one.get(name), two.get(name)) for one, two in layers for name in one | two]
            assert [name for name in names if name[1] != name[2]][:20] == []
    finally:
        image.client.images.remove(tags[1], force=True)
