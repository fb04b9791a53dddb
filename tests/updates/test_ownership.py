"""Whose a file is: one reading of the child's list, from its root, as .gitignore is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_repo_runtime.update.ownership import OWNERSHIP, owners, owners_in

LISTS = {
    "managed": {"scripts/": "s", "tests/gpu/": "g", "deploy/pipelines/README.md": "p", "renovate.json": "r"},
    "seed": {"README.md": "r", "tests/*.py": "t", "src/x/model.py": "m"},
}


OWNED = [
    ("README.md", "seed"),
    ("deploy/pipelines/README.md", "managed"),
    ("docs/README.md", None),
    ("tests/test_model.py", "seed"),
    ("tests/gpu/test_smoke.py", "managed"),
    ("tests/more/test_model.py", None),
    ("scripts/tools/lock", "managed"),
    ("own/scripts/build", None),
    ("renovate.json", "managed"),
    ("apps/renovate.json", None),
]


def test_a_pattern_begins_at_the_root() -> None:
    for path, owner in OWNED:
        assert owners(LISTS).of(path) == owner, (path, owner)


@pytest.mark.parametrize("text", [None, "managed:\n  a: b: c\n", "- a\n- b\n", "managed:\nseed:\n", "\xff"])
def test_a_list_that_cannot_be_read_gives_nothing_to_anybody(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / OWNERSHIP).write_text(text, encoding="latin-1")
    assert owners_in(tmp_path).of("README.md") is None
