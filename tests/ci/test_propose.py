"""scripts/propose: one branch and one pull request for each release, a draft where a person has to act."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.ci.children import commit
from tests.conftest import git
from tests.shared import program
from tests.templates.own import own_copy, run, stand_in

UPDATE = r"""#!/usr/bin/env bash
echo "v0.0.1 -> v9.9.9"
[[ $CODE != 1 ]] || exit 1
sed -i 's/^_commit: .*/_commit: v9.9.9/' .copier-answers.yml
echo '<<<<<<< HEAD' >>renovate.json
exit "$CODE"
"""
GH = 'echo "token $GH_TOKEN: $*" >"$HOME/request"\n[[ -z ${GH_FAILS:-} ]]'
HOOK = '#!/bin/sh\ntest -z "$GIT_PUSH_OPTION_0" || echo "$GIT_PUSH_OPTION_0 $GIT_PUSH_OPTION_1" >"$HOME/request"\n'
BRANCH = "template/v9.9.9"
pytestmark = pytest.mark.slow
Propose = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def propose(render: Callable[[AnswerSet], Path], tmp_path: Path) -> Propose:
    """Return a function that runs the script in a fresh clone of a child that is on a host."""
    answers = AnswerSet("library", "plain", ci=("jenkins", "github", "gitlab"), update_job=True)
    child = own_copy(render(answers), tmp_path, commit=True)
    program(child / "scripts" / "update", UPDATE)
    commit(child, "Update")
    stand_in(child, "gh", GH)

    def proposed(host: str, code: int, **more: str) -> subprocess.CompletedProcess[str]:
        origin, work = tmp_path / host / "child.git", tmp_path / "work"
        if not origin.exists():
            git(child, "clone", "--quiet", "--bare", str(child), str(origin))
            git(origin, "config", "receive.advertisePushOptions", "true")
            program(origin / "hooks" / "pre-receive", HOOK)
        shutil.rmtree(work, ignore_errors=True)
        git(child, "clone", "--quiet", str(origin), str(work))
        return run(work, "scripts/propose", **{"UPDATE_TOKEN": "t0ken", "CODE": str(code)} | more)

    return proposed


def branches(origin: Path) -> list[str]:
    """Return the branches of a bare repository."""
    return git(origin, "branch", "--format=%(refname:short)").split()


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_a_release_is_proposed_once(host: str, code: int, propose: Propose, tmp_path: Path) -> None:
    origin, request = tmp_path / host / "child.git", tmp_path / "request"
    done = propose(host, code)
    assert done.returncode == 0, done.stderr
    assert branches(origin) == ["main", BRANCH]
    title = f"{'Draft: ' * (code == 3)}Update the template to v9.9.9"
    assert git(origin, "log", "-1", "--format=%s%n%b", BRANCH).split("\n")[:2] == [title, "v0.0.1 -> v9.9.9"]
    assert git(origin, "show", f"{BRANCH}:renovate.json").endswith("<<<<<<< HEAD\n")
    said = request.read_text()
    assert title in said
    if host == "github":
        assert said.startswith("token t0ken: pr create")
        assert ("--draft" in said) == (code == 3)
    else:
        assert said == f"merge_request.create merge_request.title={title}\n"
    request.unlink()
    again = propose(host, code)
    assert (again.returncode, request.exists()) == (0, False), again.stderr
    assert f"{BRANCH} was proposed before" in again.stderr


@pytest.mark.parametrize(
    ("code", "more", "expected"),
    [
        (1, {}, 1),  # the update fails: the reason is printed
        (0, {"UPDATE_TOKEN": ""}, 2),
        (0, {"GH_FAILS": "1"}, 1),  # no branch without its request, or the next run would leave it
    ],
)
def test_a_failure_leaves_no_branch(
    code: int, more: dict[str, str], expected: int, propose: Propose, tmp_path: Path
) -> None:
    done = propose("github", code, **more)
    assert done.returncode == expected, done.stderr
    assert branches(tmp_path / "github" / "child.git") == ["main"]
