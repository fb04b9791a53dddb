"""scripts/lock --audit: known vulnerabilities of a repository's locks."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_repo_runtime import locking

LOCK = """gpu-repo-runtime @ file:wheels/gpu_repo_runtime-0.4.0-py3-none-any.whl \\
    --hash=sha256:aa
pyyaml==5.3 \\
    --hash=sha256:bb
numpy==2.3.0 \\
    --hash=sha256:cc
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with two locks, and be in it."""
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "requirements-dev.lock").write_text("requests==2.0 \\\n    --hash=sha256:dd\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lock(*options: str) -> int:
    """Run scripts/lock with these options; return its exit code."""
    return locking.main(["--image", "plain-cu13", "--", *options])


def stand_in(project: Path, body: str) -> None:
    """Put a program in the place of uv, whose `tool run pip-audit` is to be called."""
    uv = project / ".venv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.write_text(f"#!/bin/sh\n{body}\n")
    uv.chmod(0o755)


@pytest.mark.parametrize("code", [1, 0])
def test_pip_audit_is_asked_about_packages_of_an_index_only(
    project: Path, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    """It prints what it finds, or why the database does not answer; that is no all clear."""
    stand_in(project, f"for last; do :; done; cat $last >> asked; echo 'pyyaml 5.3 CVE-2020-1747'; exit {code}")
    before = {path.name: path.read_bytes() for path in project.glob("*.lock")}
    assert lock("--audit") == code
    assert "CVE-2020-1747" in capfd.readouterr().out
    asked = (project / "asked").read_text()
    assert ("pyyaml==5.3" in asked, "requests==2.0" in asked, "gpu-repo-runtime" in asked) == (True, True, False)
    assert {path.name: path.read_bytes() for path in project.glob("*.lock")} == before
