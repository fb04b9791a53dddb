"""Scripts run in a checkout of any git: bash takes no CRLF, which git for Windows writes unless it is told not to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.answers import AnswerSet


def test_scripts_have_lf_where_git_checks_out_crlf(render: Callable[[AnswerSet], Path], tmp_path: Path) -> None:
    child, here = render(AnswerSet("library", "plain")), tmp_path / "here"
    who = ["-c", "user.name=o", "-c", "user.email=o@example.com"]

    def git(*arguments: str) -> None:
        subprocess.run(["git", f"--git-dir={tmp_path}/git", f"--work-tree={child}", *who, *arguments], check=True)

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message=child")
    clone = ["git", "clone", "--quiet", "--config=core.autocrlf=true", f"{tmp_path}/git", str(here)]
    subprocess.run(clone, check=True)
    assert b"\r\n" in (here / "README.md").read_bytes()
    with_crlf = [p.name for p in (here / "scripts").rglob("*") if p.is_file() and b"\r\n" in p.read_bytes()]
    assert with_crlf == []
    subprocess.run(["bash", "-n", "scripts/lib.sh"], cwd=here, check=True)
