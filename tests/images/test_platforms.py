"""A row is built on a machine of one of the platforms that it names."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from image_tools import build_plan, platforms
from image_tools.catalog import ImageError, Pin, installed_pins, live_rows, program

from .conftest import CATALOG

ARM = "linux/arm64"
ON_ARM = [row["name"] for row in live_rows(CATALOG) if ARM in row["platforms"]]
OTHERS = [row["name"] for row in live_rows(CATALOG) if ARM not in row["platforms"]]


def wheels_for_arm(pins: Iterable[Pin], folder: Path) -> dict[str, set[str]]:
    """Return the wheels that uv takes on arm64 with the images' Python: package -> their SHA-256.

    A resolution into a lock: a dry run of the installation believes any hash.
    """
    file = folder / "requirements.in"
    file.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in pins))
    options = ["--no-deps", "--only-binary", ":all:", "--format", "pylock.toml", "--quiet", "--no-header"]
    options += ["--python-platform", "aarch64-manylinux_2_40", "--python-version", str(CATALOG["python"])]
    environment = {key: value for key, value in os.environ.items() if key != "UV_FIND_LINKS"}
    command = [program("uv"), "pip", "compile", *options, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = tomllib.loads(done.stdout)["packages"]
    return {one["name"]: {wheel["hashes"]["sha256"] for wheel in one.get("wheels", ())} for one in found}


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


def test_each_row_is_built_for_the_platforms_that_it_names() -> None:
    assert [row["name"] for row in platforms.rows_on(CATALOG, "", ARM)] == ON_ARM != []
    for name in OTHERS:
        with pytest.raises(ImageError, match=rf"^{name}: has no image for {ARM}: build it on linux/amd64$"):
            platforms.rows_on(CATALOG, name, ARM)


def test_the_plan_of_another_platform(tmp_path: Path) -> None:
    for name, modules in (("plain-cu12", ""), ("torch-cu13", "triton\n")):
        [row] = platforms.rows_on(CATALOG, name, ARM)
        build_plan.write_plan(CATALOG, row, tmp_path / name)
        assert f"--platform={ARM}" in build_plan.build_options(CATALOG, row, "host/ml")
        assert json.loads((tmp_path / name / "facts" / "image.json").read_text())["platform"] == ARM
        assert (tmp_path / name / "modules" / "asked").read_text() == modules
