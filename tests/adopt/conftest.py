"""Small repositories of every kind, made of a dict of files."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import git
from tests.updates.tiny import write_files

Make = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def old(tmp_path: Path) -> Make:
    """Return a function that makes a repository of one commit."""

    def make(files: Mapping[str, str]) -> Path:
        folder = tmp_path / "old-code"
        folder.mkdir()
        write_files(folder, files)
        git(folder, "init", "--quiet", "--initial-branch=main")
        git(folder, "config", "user.name", "Owner")
        git(folder, "config", "user.email", "owner@example.com")
        git(folder, "add", "--all", "--force")
        git(folder, "commit", "--quiet", "--message=Old code")
        return folder

    return make
