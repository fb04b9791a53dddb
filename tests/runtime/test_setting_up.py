"""The programs behind scripts/lock and scripts/setup: what they ask uv for, and what they leave where it refuses."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from gpu_repo_runtime import environment, locking
from gpu_repo_runtime.script_error import ScriptError

from tests.shared import program

# Stands in for uv: it writes down how it is called, and does what `uv.json` says of calls that hold a word.
UV = """#!/usr/bin/env python3
import json, pathlib, sys
words = sys.argv[1:]
with open("calls", "a") as calls:
    print(json.dumps(words), file=calls)
if "pip-audit" in " ".join(words):
    with open("audited", "a") as audited:
        audited.write(sys.stdin.read())
for word, code in json.loads(pathlib.Path("uv.json").read_text()).items():
    if word in " ".join(words):
        sys.exit(code)
if "--output-file" in words:
    out = pathlib.Path(words[words.index("--output-file") + 1])
    out.write_text((out.read_text() if out.exists() else "") + "resolved\\n")
if "sync" in words:
    pathlib.Path("synced").write_text(pathlib.Path(words[words.index("--require-hashes") + 1]).read_text())
"""
UV_OF_VENV = ".venv/bin/uv"
WHEEL = "gpu-repo-runtime[serving] @ file:wheels/gpu_repo_runtime-1.0-py3-none-any.whl"


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a repository that is set up, and stand in it."""
    for folder in ("wheels", "scripts/tools"):
        (tmp_path / folder).mkdir(parents=True)
    program(tmp_path / ".venv/bin/uv", UV)
    (tmp_path / "uv.json").write_text("{}")
    (tmp_path / "wheels/requirements.in").write_text(f"# the runtime\n{WHEEL}\n")
    (tmp_path / "requirements.lock").write_text(
        f"{WHEEL} \\\n    --hash=sha256:1\ntorch==2 \\\n    --hash=sha256:2\nx==1\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def calls(child: Path) -> list[list[str]]:
    """Return the calls of uv."""
    file = child / "calls"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def lock(*options: str, gpu: bool = False, files: str = "", project: bool = False) -> list[str]:
    """Lock as scripts/lock does, and return the locks that changed."""
    return locking.lock(UV_OF_VENV, "torch-cu13", locking.sources(gpu, files, project), [*options])


@pytest.mark.slow
@pytest.mark.parametrize("project", [False, True])
def test_an_adopted_repository_is_locked_from_files_of_its_own(child: Path, project: bool) -> None:
    (child / "wheels/requirements.in").unlink()
    lock(gpu=True, files="our", project=project)
    named = [[word for word in words if word.endswith((".in", ".toml"))] for words in calls(child)]
    run = ["pyproject.toml", "our.in"] if project else ["our.in"]
    assert named == [run, [*run, "our-gpu.in"], ["our-dev.in"]]
    assert not [words for words in calls(child) if "--extra" in words or "--group" in words]


@pytest.mark.slow
def test_where_one_lock_cannot_be_resolved_none_changes(child: Path) -> None:
    (child / "uv.json").write_text(json.dumps({"--group": 1}))
    before = (child / "requirements.lock").read_text()
    with pytest.raises(ScriptError, match="a version that fits the base image torch-cu13"):
        lock()
    assert (child / "requirements.lock").read_text() == before
    assert not (child / "requirements-dev.lock").exists()


def test_a_package_from_a_folder_or_git_is_refused_with_the_reason(child: Path) -> None:
    source = "[project]\n[tool.uv.sources]\nown = "
    refused = [
        '[project]\ndependencies = ["own @ git+https://me:secret@example.com/own.git@v1"]\n',
        '[project.optional-dependencies]\ngpu = ["own @ file:../own"]\n',
        '[dependency-groups]\ndev = ["own @ ../own"]\n',
        f'{source}{{ git = "https://example.com/own.git" }}\n',
        f'{source}[{{ path = "../own", marker = "x" }}]\n',
    ]
    for text in refused:
        (child / "pyproject.toml").write_text(text)
        with pytest.raises(ScriptError, match=r"^pyproject.toml takes own from a folder or a git repository: "):
            lock()
        assert calls(child) == [], text
    (child / "pyproject.toml").write_text('[project]\ndependencies = ["own[all]=1.0"]\n')
    with pytest.raises(ScriptError, match=r"requires 'own.all.=1\.0', with one =: write =="):
        lock()
    asked = ["own @ https://example.com/own-1.0-py3-none-any.whl", "own==1.0; python_version > '3'"]
    (child / "pyproject.toml").write_text(f"[project]\ndependencies = {json.dumps(asked)}\n")
    assert lock() == ["requirements.lock", "requirements-dev.lock"]


@pytest.mark.parametrize("code", [1, 0])
def test_the_audit_asks_about_packages_of_an_index_only_and_passes_on_what_is_found(child: Path, code: int) -> None:
    (child / "uv.json").write_text(json.dumps({"pip-audit": code}))
    (child / "requirements-dev.lock").write_text("requests==2.0 \\\n    --hash=sha256:3\n")
    found = locking.audit(UV_OF_VENV, locking.sources(False, "", False))
    asked = (child / "audited").read_text()
    names = ("torch==2", "requests==2.0", "gpu-repo-runtime")
    assert (found, *(name in asked for name in names)) == (code, True, True, False)


@pytest.mark.slow
def test_a_machine_with_a_gpu_gets_the_packages_for_it(child: Path) -> None:
    environment.make(gpu=True, framework="")
    assert "torch==2" in (child / "synced").read_text(), "there is no lock for the GPU: the one of all holds everything"
    (child / "requirements-gpu.lock").write_text("for the GPU\n")
    environment.make(gpu=True, framework="")
    assert (child / "synced").read_text() == "for the GPU\n"
    environment.make(gpu=False, framework="")
    assert "torch==2" in (child / "synced").read_text()


def test_a_chosen_framework_replaces_the_locked_one_and_is_kept(child: Path) -> None:
    """scripts/lock and an update tell an owner to run scripts/setup, which must not download CUDA on a laptop."""
    with (child / "requirements.lock").open("a") as lock:
        for name in ("tensorflow", "jax", "jaxlib", "jax-cuda13-plugin", "nvidia-cudnn-cu13", "triton"):
            lock.write(f"{name}==1 \\\n    --hash=sha256:1\n")
    environment.make(False, "torch==9")
    assert [one for one in calls(child) if "torch==9" in one and "--dry-run" not in one]
    assert (child / "synced").read_text() == f"{WHEEL} \\\n    --hash=sha256:1\nx==1\n"
    assert environment.chosen() == "torch==9"
    environment.make(False, "")
    assert ("torch==2" in (child / "synced").read_text(), environment.chosen()) == (True, "")


def test_a_framework_that_cannot_be_had_leaves_the_environment(child: Path) -> None:
    (child / "uv.json").write_text(json.dumps({"--dry-run": 1}))
    with pytest.raises(ScriptError, match="the packages were not installed"):
        environment.make(False, "torch==9")
    assert not (child / "synced").exists()


@pytest.mark.parametrize("code", [0, 1])
def test_another_runtime_is_locked_before_anything_is_installed(
    child: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    newer = WHEEL.replace("1.0", "2.0")
    (child / "wheels/requirements.in").write_text(f"# the runtime\n{newer}\n")
    program(child / "scripts/lock", f"#!/bin/sh\nexit {code}\n")
    with pytest.raises(ScriptError, match="scripts/lock must resolve") if code else nullcontext():
        environment.make(False, "")
    said = capsys.readouterr().err
    assert f"{newer.rpartition(' @ ')[2]}, which requirements.lock does not name: running scripts/lock" in said
    assert (child / "synced").exists() == (code == 0)
    assert ("commit the changed locks together with wheels/" in said) == (code == 0)


def test_an_environment_of_others_behind_a_link_is_not_emptied(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "scratch/other"
    (other / "bin").mkdir(parents=True)
    Path(".venv").symlink_to(other)
    with pytest.raises(ScriptError, match=r"is a link to a folder that .* would be emptied"):
        environment.make_venv(environment.VENV)
    assert (other / "bin").is_dir()
