"""base-install and the wheels that a child carries; what needs an image is in tests/images."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

SOURCE = ROOT / "base-images/recipe/finish/base_install.py"
NAME = "gpu_repo_runtime-0.3.0-py3-none-any.whl"


@pytest.fixture
def program(tmp_path: Path) -> ModuleType:
    """Return the program with a base of its own."""
    base = tmp_path / "base"
    (base / "lib").mkdir(parents=True)
    for name in ("packaging", "pip"):
        (base / "lib" / f"{name}-1-py3-none-any.whl").touch()
    module = ModuleType("base_install")
    exec(SOURCE.read_text().replace('"/opt/base"', repr(str(base))), module.__dict__)
    return module


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Return the folder of wheels of a child."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / NAME).write_bytes(b"a wheel")
    return folder


def lock(tmp_path: Path, wheel: str = NAME) -> Path:
    """Write a lock that names a wheel."""
    path = tmp_path / "requirements.lock"
    sha256 = hashlib.sha256(b"a wheel").hexdigest()
    path.write_text(
        f"gpu-repo-runtime @ file:wheels/{wheel} \\\n    --hash=sha256:{sha256}\n"
        f"idna==3.20 \\\n    --hash=sha256:{'0' * 64}\n"
    )
    return path


def test_a_wheel_of_the_child_is_installed_from_its_folder_by_hash(
    program: ModuleType, wheels: Path, tmp_path: Path
) -> None:
    pins = program.read_lock(lock(tmp_path), wheels)
    sha256 = hashlib.sha256(b"a wheel").hexdigest()
    assert pins["gpu-repo-runtime"] == (
        "0.3.0",
        f"gpu-repo-runtime @ {(wheels / NAME).as_uri()} --hash=sha256:{sha256}",
    )
    assert pins["idna"][0] == "3.20"
    program.check_named(lock(tmp_path), wheels)


@pytest.mark.parametrize("wheel", ["gpu_repo_runtime-0.2.0-py3-none-any.whl", "../wheels/" + NAME])
def test_a_wheel_that_is_not_there_is_named_with_the_way_out(
    program: ModuleType, wheels: Path, tmp_path: Path, wheel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.read_lock(lock(tmp_path, wheel), wheels)
    told = capsys.readouterr().err
    assert wheel in told
    assert "scripts/lock" in told


def test_a_lock_of_before_the_update_is_told_the_one_command(
    program: ModuleType, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.check_named(lock(tmp_path, "gpu_repo_runtime-0.2.0-py3-none-any.whl"), wheels)
    assert f"does not name wheels/{NAME}, which the template brought: run scripts/lock" in capsys.readouterr().err
