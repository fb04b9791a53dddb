"""What importlib.metadata says of a project that runs from its folder."""

from __future__ import annotations

from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from gpu_repo_runtime import environment, project
from packaging.version import Version

from tests.runtime.kinds import ROW
from tests.runtime.served import app_of


def recorded(target: Path) -> list[Distribution]:
    """Return the packages that a folder of sys.path holds, as importlib.metadata reads them."""
    return list(distributions(path=[str(target)]))


def one(files: dict[str, str], folder: Path) -> Distribution:
    """Return the record of a project of these files."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    project.write(folder, folder / "site")
    [found] = recorded(folder / "site")
    return found


DYNAMIC = "[project]\nname = 'a-b'\ndynamic = ['version']\n"
FILES: list[dict[str, str]] = [
    {"pyproject.toml": "[project]\nname = 'a-b'\nversion = '1.2'\n"},
    {"pyproject.toml": "[tool.poetry]\nname = 'a-b'\nversion = '1.2'\n"},
    {"pyproject.toml": DYNAMIC, "src/ab/__init__.py": "import os\n__version__ = '1.2'\n"},
    {"pyproject.toml": DYNAMIC, "ab/__about__.py": "__version__: str = '1.2'\n"},
    {"setup.py": "import setuptools as s\ns.setup(name='a-b', version='1.2', packages=s.find_packages())\n"},
    {"setup.py": "from setuptools import setup\nsetup()\n", "setup.cfg": "[metadata]\nname=a-b\nversion=1.2\n"},
]


def test_each_place_of_a_version_is_read(tmp_path: Path) -> None:
    for number, files in enumerate(FILES):
        found = one(files, tmp_path / str(number))
        assert (found.metadata["Name"], found.version) == ("a-b", "1.2"), files


def test_a_version_that_is_none_is_unknown_and_valid(tmp_path: Path) -> None:
    found = one({"pyproject.toml": "[project]\nname = 'x'\nversion = '$Format$'\n"}, tmp_path)
    assert found.version == project.UNKNOWN
    assert str(Version(project.UNKNOWN)) == project.UNKNOWN


def test_a_new_version_takes_the_place_of_the_old_one_and_of_nothing_else(tmp_path: Path) -> None:
    other = tmp_path / "site" / "other-1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    one({"pyproject.toml": "[project]\nname = 'x'\nversion = '1'\n"}, tmp_path / "a")
    for version in ("1", "2"):
        (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'x'\nversion = '{version}'\n")
        project.write(tmp_path, tmp_path / "site")
    assert sorted((found.name, found.version) for found in recorded(tmp_path / "site")) == [("other", "1"), ("x", "2")]


def test_setting_up_lets_the_code_ask_for_its_version_and_names_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "src/kind").mkdir(parents=True)
    (tmp_path / "src/kind/__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '3.1'\ndescription = 'Mine.'\n")
    monkeypatch.chdir(tmp_path)
    environment.link_project()
    [found] = recorded(packages)
    assert (found.name, found.version) == ("mine", "3.1")
    monkeypatch.syspath_prepend(str(packages))
    info = app_of(ROW).openapi()["info"]  # a model of the package `kind`
    assert info == {"title": "mine", "version": "3.1", "description": "Mine."}
