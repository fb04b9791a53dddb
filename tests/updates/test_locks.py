"""The locks follow the runtime and the image in the update itself, and nothing else in them changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.updates.program import Program
from tests.updates.tiny import Child, Template, make_child
from tests.updates.wheels import LOCK, index, release_runtime, runtime


@pytest.fixture
def child(template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    """Return a child whose lock names the runtime of the first release."""
    for name, value in index(tmp_path).items():
        monkeypatch.setenv(name, value)
    digest = release_runtime(template, "1.0.0")
    lock = LOCK.format("0" * 64, runtime("1.0.0"), digest)
    return make_child(template, tmp_path / "child", edits={"requirements.lock": lock})


def test_the_lock_names_the_new_wheel_with_its_hash(template: Template, child: Child, program: Program) -> None:
    digest = release_runtime(template, "2.0.0")
    assert program(child) == 0, program.err
    assert child.read("requirements.lock") == LOCK.format("0" * 64, runtime("2.0.0"), digest)
    assert child.status()["requirements.lock"] == "M "
    assert [path.name for path in (child.path / "wheels").glob("*.whl")] == [runtime("2.0.0")]


def test_no_lock_leaves_it(template: Template, child: Child, program: Program) -> None:
    release_runtime(template, "2.0.0")
    before = child.read("requirements.lock")
    assert program(child, "--no-lock") == 0, program.err
    assert child.read("requirements.lock") == before


@pytest.mark.slow
def test_a_package_that_the_new_runtime_requires_is_added_and_no_other(
    template: Template, child: Child, program: Program
) -> None:
    release_runtime(template, "2.0.0", requires=("newcomer>=3",))
    assert program(child) == 0, program.err
    lock = child.read("requirements.lock")
    assert re.findall(r"(?m)^[a-z-]+(?:==| @)", lock) == ["first==", "gpu-repo-runtime @", "newcomer==", "zlast=="]
    assert "# a comment of the owner" in lock
    assert "requirements.lock: gpu_repo_runtime-2.0.0-py3-none-any.whl, newcomer 3.0" in program.out


@pytest.mark.slow
@pytest.mark.parametrize(("pinned", "after"), [("1.0", "1.1"), ("0.9", "0.9")], ids=["follows", "own pin"])
def test_a_version_of_the_image_is_followed_where_the_owner_followed_it(
    template: Template, child: Child, program: Program, pinned: str, after: str
) -> None:
    child.edit({"requirements.lock": child.read("requirements.lock").replace("first==1.0", f"first=={pinned}")})
    release_runtime(template, "2.0.0", image="1.1")
    assert program(child) == 0, program.err
    assert f"\nfirst=={after} \\\n" in child.read("requirements.lock")


@pytest.mark.slow
def test_what_cannot_be_resolved_is_a_to_do_with_the_command(
    template: Template, child: Child, program: Program
) -> None:
    release_runtime(template, "2.0.0", requires=("nowhere>=3",))
    before = child.read("requirements.lock")
    assert program(child) == 3
    assert "requirements.lock: run scripts/setup, then scripts/lock, and commit the locks (uv: " in program.out
    assert "nowhere" in program.out
    assert child.read("requirements.lock") == before
