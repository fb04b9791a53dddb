"""A row is built for the platforms that it names; what is released for several of them is one list of images."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from image_tools import lists, plan, platforms, registry, released
from image_tools.catalog import DEFAULT_PLATFORM, FOLDER, ImageError, Pin, find_row, installed_pins, live_rows
from image_tools.lock import uv

from .conftest import CATALOG
from .registries import running
from .test_signing import image

ARM = "linux/arm64"
ON_ARM = [row["name"] for row in live_rows(CATALOG) if ARM in row["platforms"]]
OTHERS = [row["name"] for row in live_rows(CATALOG) if ARM not in row["platforms"]]
LOCK = "f" * 64


def wheels_for_arm(pins: Iterable[Pin], folder: Path) -> dict[str, set[str]]:
    """Return the wheels that uv takes on arm64 with the images' Python: package -> their SHA-256.

    A resolution into a lock: a dry run of the installation believes any hash.
    """
    file = folder / "requirements.in"
    file.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in pins))
    options = ["--no-deps", "--only-binary", ":all:", "--format", "pylock.toml", "--quiet", "--no-header"]
    options += ["--python-platform", "aarch64-manylinux_2_40", "--python-version", str(CATALOG["python"])]
    environment = {key: value for key, value in os.environ.items() if key != "UV_FIND_LINKS"}
    command = [uv(), "pip", "compile", *options, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = tomllib.loads(done.stdout)["packages"]
    return {one["name"]: {wheel["hashes"]["sha256"] for wheel in one.get("wheels", ())} for one in found}


def test_the_rows_of_this_years_machines_are_on_arm64() -> None:
    assert ON_ARM == ["torch-cu13", "plain-cu13", "plain-cu12"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_ARM)
def test_each_lock_has_wheels_for_arm64_by_hash(name: str, tmp_path: Path) -> None:
    """The same lock, the same versions of everything."""
    pins = installed_pins(CATALOG, name, ARM)
    assert {key: pin.version for key, pin in pins.items()} == {
        key: pin.version for key, pin in installed_pins(CATALOG, name).items()
    }
    wheels = wheels_for_arm(pins.values(), tmp_path)
    assert wheels.keys() == pins.keys()
    missing = [key for key, pin in pins.items() if not wheels[key] & set(pin.hashes)]
    assert not missing, f"{name}: the lock has no hash of a wheel for arm64: {missing}"


@pytest.mark.slow
def test_wheels_of_arm64_are_not_those_of_amd64(tmp_path: Path) -> None:
    """The test above sees the difference: of a package with a wheel for each processor it takes one."""
    pin = installed_pins(CATALOG, "plain-cu12")["nvidia-cudnn-cu12"]
    [taken] = wheels_for_arm([pin], tmp_path).values()
    assert len(taken) == 1 < len(pin.hashes)


@pytest.mark.parametrize("platform", [ARM, "linux/riscv64", "arm64"])
@pytest.mark.parametrize("name", OTHERS)
def test_another_platform_than_the_rows_is_one_clear_line(name: str, platform: str) -> None:
    with pytest.raises(ImageError, match=rf"{name}: has no image for {platform}; PLATFORM can be linux/amd64") as error:
        platforms.rows_on(CATALOG, name, platform)
    assert len(str(error.value).splitlines()) == 1


def test_without_a_name_the_rows_of_the_platform_are_meant() -> None:
    assert [row["name"] for row in platforms.rows_on(CATALOG, "", ARM)] == ON_ARM
    assert platforms.rows_on(CATALOG, "", DEFAULT_PLATFORM)[0]["platform"] == DEFAULT_PLATFORM
    with pytest.raises(
        ImageError, match="no image is made for windows/amd64; PLATFORM can be linux/amd64, linux/arm64"
    ):
        platforms.rows_on(CATALOG, "", "windows/amd64")


def test_an_engine_without_emulation_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    told = subprocess.CompletedProcess([], 0, "Name: default\nPlatforms: linux/amd64*, linux/386\n", "")
    monkeypatch.setattr(platforms.subprocess, "run", lambda *_, **__: told)
    monkeypatch.setattr(platforms, "own_platform", lambda: DEFAULT_PLATFORM)
    platforms.check_emulation(DEFAULT_PLATFORM)
    with pytest.raises(ImageError, match="cannot run programs of that platform: install QEMU"):
        platforms.check_emulation(ARM)
    told.stdout = "Platforms: linux/amd64, linux/arm64\n"
    platforms.check_emulation(ARM)


def test_the_plan_of_another_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image is of the platform, the stage of the installer of this machine."""
    monkeypatch.setattr(plan, "BUILD", tmp_path / "build")
    monkeypatch.setattr(plan, "ROOT", tmp_path)
    monkeypatch.setattr(plan, "own_platform", lambda: DEFAULT_PLATFORM)
    bake = json.loads((tmp_path / plan.write_bake_file(CATALOG, "host/ml", ARM)).read_text())
    assert bake["group"]["default"]["targets"] == ON_ARM
    target = bake["target"]["plain-cu12"]
    assert target["tags"] == [f"host/ml/plain-cu12:{CATALOG['release']}-arm64"]
    assert target["platforms"] == [ARM]
    assert (target["args"]["INSTALLER"], target["args"]["BUILD_OS_IMAGE"]) == ("cross", "${BUILD_OS_IMAGE}")
    made = Path(target["contexts"]["plan"])
    assert json.loads((made / "facts" / "image.json").read_text())["platform"] == ARM
    assert (made / "modules" / "asked").read_text() == ""
    torch = Path(bake["target"]["torch-cu13"]["contexts"]["plan"])
    assert (torch / "modules" / "asked").read_text() == "triton\n"
    own = json.loads((tmp_path / plan.write_bake_file(CATALOG, "host/ml")).read_text())["target"]["plain-cu12"]
    assert own["tags"] == [f"host/ml/plain-cu12:{CATALOG['release']}"]
    assert "INSTALLER" not in own["args"]


def on(name: str, platform: str) -> dict[str, Any]:
    """Return a row on a platform."""
    return platforms.on_platform(find_row(CATALOG, name), platform)


def test_a_release_joins_what_was_made_from_the_same_lock(capsys: pytest.CaptureFixture[str]) -> None:
    first = {"digest": "sha256:aa", "lock_sha256": LOCK, "tag": "2026.11.01"}
    assert lists.companions(first, on("plain-cu12", ARM), LOCK) == {DEFAULT_PLATFORM: first}
    both = {"platforms": {DEFAULT_PLATFORM: first, ARM: {"digest": "sha256:bb", "lock_sha256": LOCK}}}
    assert lists.companions(both, on("plain-cu12", DEFAULT_PLATFORM), LOCK).keys() == {ARM}
    assert lists.companions(both, on("plain-cu12", DEFAULT_PLATFORM), "e" * 64) == {}
    assert "the release has no image for linux/arm64 until one of this lock is promoted" in capsys.readouterr().out
    for known in ({}, first):
        with pytest.raises(ImageError, match="no tag was set: promote that platform first"):
            lists.companions(known, on("plain-cu12", ARM), "e" * 64)


def test_the_record_of_a_list_tells_each_platform() -> None:
    """A child takes the digest of the list; who reads an entry without platforms finds what the first one has."""
    first = {"digest": "sha256:aa", "lock_sha256": LOCK, "tag": "2026.11.01", "compressed_bytes": 1}
    second = {"digest": "sha256:bb", "lock_sha256": LOCK, "tag": "2026.11.02", "compressed_bytes": 2}
    told = released.with_platforms(second, ARM, {DEFAULT_PLATFORM: first}, "2026.11.02", "sha256:cc")
    assert (told["tag"], told["digest"], told["compressed_bytes"]) == ("2026.11.02", "sha256:cc", 1)
    assert {name: one["digest"] for name, one in told["platforms"].items()} == {
        DEFAULT_PLATFORM: "sha256:aa",
        ARM: "sha256:bb",
    }
    assert lists.entries_of(told) == told["platforms"]
    assert released.with_platforms(first, DEFAULT_PLATFORM, {}, "", "") == first


@pytest.mark.needs("skopeo")
def test_a_list_in_a_registry(tmp_path: Path) -> None:
    """The same images give the same digest; a tag moves to the list with all that it holds."""
    with running(tmp_path) as host:
        repository = f"{host}/ml/plain-cu12"
        images = {DEFAULT_PLATFORM: image(repository, "one").digest, ARM: image(repository, "two").digest}
        content = lists.list_of(repository, images)
        assert lists.list_of(repository, dict(reversed(images.items()))) == content
        lists.push_list(content, f"{repository}:2026.11.01")
        found = registry.look_up(f"{repository}:2026.11.01")
        assert found.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert found.images == images
        registry.set_tag(f"{repository}@{found.digest}", repository, "2026.11")
        assert registry.look_up(f"{repository}:2026.11") == found
        with pytest.raises(ImageError, match=re.escape(f"{repository}@sha256:{'0' * 64}")):
            lists.list_of(repository, images | {ARM: f"sha256:{'0' * 64}"})


def test_the_installer_runs_its_own_python_in_an_image_of_another_platform() -> None:
    """The link to /usr/bin/python3 of its environment leads to the image's Python, once it is mounted there."""
    text = (FOLDER / "Dockerfile").read_text()
    stage = text[text.index("AS installer") : text.index("AS packages")]
    assert stage.index("-m venv /opt/installer") < stage.index("rm /opt/installer/bin/python*")
    native = (FOLDER / "recipe" / "install" / "native").read_text()
    assert "for folder in opt/installer/bin usr/bin; do" in native
