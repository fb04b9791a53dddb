"""A wheel that would not work elsewhere is not packaged, so that no pipeline publishes it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from tests.ci.children import Builds, commit, quick_checks


def without_a_module(it: Builds) -> None:
    """Leave a module out of the wheel that is in git, one below the package's own folder."""
    package = next(it.child.glob("src/*/model.py")).parent
    (package / "extra").mkdir()
    for name in ("__init__", "names"):
        (package / "extra" / f"{name}.py").write_text('"""More."""\n')
    project = it.child / "pyproject.toml"
    project.write_text(project.read_text().replace("\npackages =", '\nexclude = ["names.py"]\npackages ='))


def without_a_dependency(it: Builds) -> None:
    project = it.child / "pyproject.toml"
    project.write_text(project.read_text().replace('  "numpy>=2",\n', ""))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (without_a_module, "which is in git: .gitignore matches it"),
        (without_a_dependency, "cannot be imported with only the packages"),
    ],
)
def test_a_wheel_that_lacks_something_is_none(
    builds: Callable[..., Builds], arrange: Callable[[Builds], None], words: str
) -> None:
    it = builds("library")
    quick_checks(it.child)
    arrange(it)
    commit(it.child, "A wheel that lacks something")
    path = f"{it.agents.labels['docker']}{os.pathsep}{os.environ['PATH']}"
    around = os.environ | {"PATH": path, "RUN_IN": "docker"}
    done = subprocess.run(["scripts/package"], cwd=it.child, env=around, capture_output=True, text=True, check=False)
    assert done.returncode, done.stdout
    assert words in done.stdout + done.stderr
    assert not (it.child / "build" / "proof" / "package").exists()
