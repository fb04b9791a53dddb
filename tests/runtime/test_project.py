"""What importlib.metadata says of a project that runs from its folder."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

import pytest
from gpu_repo_runtime import environment, project


@pytest.mark.parametrize("table", ["project", "tool.poetry"])
@pytest.mark.parametrize("version", ["1.2", ""])
def test_name_and_version_are_those_of_pyproject_toml(tmp_path: Path, table: str, version: str) -> None:
    line = f"version = '{version}'" if version else "dynamic = ['version']"
    points = "[project.entry-points.own]\nx = 'y:z'\n"
    (tmp_path / "pyproject.toml").write_text(f"[{table}]\nname = 'a-b'\n{line}\n{points if table == 'project' else ''}")
    project.write(tmp_path, tmp_path / "site")
    [found] = distributions(path=[str(tmp_path / "site")])
    assert (found.metadata["Name"], found.version) == ("a-b", version or project.UNKNOWN)
    assert [one.value for one in found.entry_points] == (["y:z"] if table == "project" else [])


def test_a_new_version_takes_the_place_of_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib/python3.12/site-packages").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for version in ("1", "2"):
        (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'x'\nversion = '{version}'\n")
        environment.link_project(tmp_path)
    [*_, folder] = (tmp_path / "lib/python3.12/site-packages/project.pth").read_text().splitlines()
    assert [(found.name, found.version) for found in distributions(path=[folder])] == [("x", "2")]
