"""What importlib.metadata says of a project that runs from its folder."""

from __future__ import annotations

from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from gpu_repo_runtime import environment, project
from packaging.version import Version


def recorded(target: Path) -> list[Distribution]:
    """Return the packages that a folder of sys.path holds, as importlib.metadata reads them."""
    return list(distributions(path=[str(target)]))


def one(text: str, folder: Path) -> Distribution:
    """Return the record of a project with this pyproject.toml."""
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    project.write(folder, folder / "site")
    [found] = recorded(folder / "site")
    return found


@pytest.mark.parametrize("table", ["project", "tool.poetry"])
@pytest.mark.parametrize(("version", "expected"), [("1.2", "1.2"), ("$Format$", project.UNKNOWN)])
def test_name_and_version_are_those_of_pyproject_toml(tmp_path: Path, table: str, version: str, expected: str) -> None:
    found = one(f"[{table}]\nname = 'a-b'\nversion = '{version}'\n", tmp_path)
    assert (found.metadata["Name"], found.version) == ("a-b", str(Version(expected)))


def test_a_new_version_takes_the_place_of_the_old_one_and_of_nothing_else(tmp_path: Path) -> None:
    other = tmp_path / "site" / "other-1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    for version in ("1", "2"):
        (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'x'\nversion = '{version}'\n")
        project.write(tmp_path, tmp_path / "site")
    assert sorted((found.name, found.version) for found in recorded(tmp_path / "site")) == [("other", "1"), ("x", "2")]


def test_setting_up_lets_the_code_ask_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '3.1'\n")
    monkeypatch.chdir(tmp_path)
    environment.link_project()
    [found] = recorded(packages)
    assert (found.name, found.version) == ("mine", "3.1")
