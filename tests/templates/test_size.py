"""A child is what its owner writes, and all of it can be read: how many files and lines it may have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime.update.render import owner_of, owners_in

from tests.answers import AnswerSet
from tests.templates.checks import files_of

RESOLVED = (".lock", "constraints.txt", ".whl", "LICENSE", "dashboard.json")  # or drawn, or legal
# Files and lines of the template. Who adds to a child makes room here, or puts it into the runtime.
LIMITS = {"library": (28, 700), "batch": (41, 940), "service": (43, 990)}
CASES = [*((project_type, "plain") for project_type in LIMITS), ("service", "torch"), ("service", "tensorflow")]


@pytest.mark.parametrize(("project_type", "framework"), CASES)
def test_a_child_stays_small(render: Callable[[AnswerSet], Path], project_type: str, framework: str) -> None:
    """The template's part; scripts of at most 25 lines; five lines in all are wider than 120 characters; 800 KB."""
    child = render(AnswerSet(project_type, framework))
    names = {path.relative_to(child).as_posix() for path in files_of(child)}
    texts = {name: (child / name).read_text(encoding="utf-8").splitlines() for name in names if name[-4:] != ".whl"}
    owners = owners_in(child)
    managed = {name for name in texts if owner_of(name, owners) != "seed" and not name.endswith(RESOLVED)}
    found = len(managed), sum(len(texts[name]) for name in managed)
    assert all(one <= limit for one, limit in zip(found, LIMITS[project_type], strict=True)), found
    scripts = {name: len(texts[name]) for name in texts if name.startswith("scripts/") and not name.endswith(".lock")}
    assert max(scripts.values()) <= 25, scripts
    read = texts.keys() - {name for name in texts if name.endswith((".lock", "constraints.txt"))}
    wide = [f"{name}: {line}" for name in read for line in texts[name] if len(line) > 120]
    assert len(wide) <= 5, wide
    assert sum((child / name).stat().st_size for name in names) < 800_000
