"""scripts/lock --audit: known weaknesses of a repository's locks, asked of a database or looked up in one."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime import locking

LOCK = """gpu-repo-runtime @ file:wheels/gpu_repo_runtime-0.4.0-py3-none-any.whl \\
    --hash=sha256:aa
pyyaml==5.3 \\
    --hash=sha256:bb
numpy==2.3.0 \\
    --hash=sha256:cc
"""


def advisory(name: str, package: str, fixed: str, *aliases: str) -> dict[str, Any]:
    """Return an advisory of OSV about all versions before `fixed`."""
    events = [{"introduced": "0"}, {"fixed": fixed}]
    affected = {"package": {"ecosystem": "PyPI", "name": package}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    return {"id": name, "aliases": list(aliases), "affected": [affected]}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with two locks and a database, and be in it."""
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "requirements-dev.lock").write_text("requests==2.0 \\\n    --hash=sha256:dd\n")
    (tmp_path / "db").mkdir()
    told = [
        advisory("PYSEC-2020-96", "PyYAML", "5.3.1", "CVE-2020-1747"),
        advisory("GHSA-6757-jp84-gxfx", "pyyaml", "5.3.1", "CVE-2020-1747"),
        advisory("PYSEC-1", "numpy", "1.0"),
    ]
    for one in told:
        (tmp_path / "db" / f"{one['id']}.json").write_text(json.dumps(one))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lock(*options: str) -> int:
    """Run scripts/lock with these options; return its exit code."""
    return locking.main(["--image", "plain-cu13", "--", *options])


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_database_of_ones_own_names_the_weakness_once_with_the_fix(project, capsys, form):
    place = project / "db"
    if form == "zip":
        with zipfile.ZipFile(project / "db.zip", "w") as packed:
            for file in place.iterdir():
                packed.write(file, file.name)
        place = project / "db.zip"
    assert lock("--audit", "--db", str(place)) == 1
    found, counted = capsys.readouterr().out.splitlines()
    assert found == "requirements.lock: pyyaml 5.3: CVE-2020-1747, fixed in 5.3.1"
    assert counted == "lock: packages: 3, known weaknesses: 1"


def test_locks_without_a_known_weakness_pass(project, capsys):
    (project / "requirements.lock").write_text(LOCK.replace("5.3 ", "6.0 "))
    assert lock("--audit", "--db", "db") == 0
    assert "known weaknesses: 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), ("{", "download it again"), ("{}", "'affected'")]
)
def test_a_database_that_cannot_be_read_is_not_taken_for_an_empty_one(project, capsys, content, said):
    place = project / "other"
    if content is not None:
        place.write_text(content)
    assert lock("--audit", "--db", str(place)) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line


def stand_in(project: Path, body: str) -> None:
    """Put a program in the place of uv, whose `tool run pip-audit` is to be called."""
    uv = project / ".venv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.write_text(f"#!/bin/sh\n{body}\n")
    uv.chmod(0o755)


def test_without_a_database_pip_audit_is_asked_about_packages_of_an_index_only(project, capsys):
    answer = {"dependencies": [{"name": "pyyaml", "version": "5.3", "vulns": [
        {"id": "PYSEC-2020-96", "fix_versions": ["5.3.1"], "aliases": ["CVE-2020-1747"]}]}]}  # fmt: skip
    stand_in(project, f"for last; do :; done; cat $last >> asked; echo '{json.dumps(answer)}'; exit 1")
    assert lock("--audit") == 1
    asked = (project / "asked").read_text()
    assert "pyyaml==5.3" in asked
    assert "gpu-repo-runtime" not in asked
    assert "pyyaml 5.3: CVE-2020-1747, fixed in 5.3.1" in capsys.readouterr().out


def test_a_database_that_does_not_answer_is_no_all_clear(project, capsys):
    stand_in(project, "echo 'no route to host' >&2; exit 1")
    assert lock("--audit") == 3
    [line] = capsys.readouterr().err.splitlines()
    assert "could not be asked: no route to host" in line
    assert "--db" in line


def test_an_audit_changes_no_lock(project):
    before = {path.name: path.read_bytes() for path in project.glob("*.lock")}
    lock("--audit", "--db", "db")
    assert {path.name: path.read_bytes() for path in project.glob("*.lock")} == before
