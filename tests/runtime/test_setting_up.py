"""The programs behind scripts/lock, setup and update: what they ask uv for, and what they leave where it refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_repo_runtime import environment, locking
from gpu_repo_runtime.scripts import tools
from gpu_repo_runtime.scripts.facts import ScriptError

from tests.runtime.services import RUNTIME
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


def after(words: list[str], option: str) -> list[str]:
    """Return what follows each time that an option is given."""
    return [words[at + 1] for at, word in enumerate(words) if word == option]


@pytest.mark.slow
def test_each_lock_stands_under_the_image_and_under_the_first(child: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (child / "requirements-dev.lock").write_text("held\n")
    assert locking.main(["--image", "plain-cu13", "--gpu", "--", "--upgrade-package=web>=1"]) == 0
    first, gpu, dev = calls(child)
    assert after(first, "--constraints") == ["constraints.txt"]
    for words in (gpu, dev):
        assert [Path(name).name for name in after(words, "--constraints")] == ["constraints.txt", "requirements.lock"]
    asked = ["pyproject.toml", "wheels/requirements.in"]
    assert [name for name in first if name in asked] == asked
    assert ([name for name in gpu if name in asked], after(gpu, "--extra")) == (asked, ["gpu"])
    assert ([name for name in dev if name in asked], after(dev, "--group")) == ([], ["dev"])
    assert all("--upgrade-package=web>=1" in words and "--generate-hashes" in words for words in (first, gpu, dev))
    assert (child / "requirements-dev.lock").read_text() == "held\nresolved\n", "it starts from what is locked"
    assert "lock: requirements-gpu.lock changed\n" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("project", [[], ["--project"]])
def test_an_adopted_repository_is_locked_from_files_of_its_own(child: Path, project: list[str]) -> None:
    (child / "wheels/requirements.in").unlink()
    assert locking.main(["--image", "plain-cu13", "--gpu", "--requirements", "our", *project, "--"]) == 0
    named = [[word for word in words if word.endswith((".in", ".toml"))] for words in calls(child)]
    run = ["pyproject.toml", "our.in"] if project else ["our.in"]
    assert named == [run, [*run, "our-gpu.in"], ["our-dev.in"]]
    assert not [words for words in calls(child) if "--extra" in words or "--group" in words]


@pytest.mark.slow
def test_where_one_lock_cannot_be_resolved_none_changes(child: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (child / "uv.json").write_text(json.dumps({"--group": 1}))
    before = (child / "requirements.lock").read_text()
    assert locking.main(["--image", "torch-cu13", "--"]) == 1
    assert "versions that fit the base image torch-cu13" in capsys.readouterr().err
    assert (child / "requirements.lock").read_text() == before
    assert not (child / "requirements-dev.lock").exists()


def test_a_package_from_a_folder_or_git_is_refused_with_the_reason(
    child: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git, source = "own @ git+https://{}example.com/own.git@v1", "[project]\n[tool.uv.sources]\nown = "
    refused = {
        f'[project]\ndependencies = ["{git.format("me:secret@")}"]\n': git.format(""),
        '[project.optional-dependencies]\nx = ["own @ file:../own"]\n': "own @ file:../own",
        '[dependency-groups]\ndev = ["own @ ../own"]\n': "own @ ../own",
        f'{source}{{ git = "https://example.com/own.git" }}\n': "own @ git+https://example.com/own.git",
        f'{source}[{{ path = "../own", marker = "x" }}]\n': "own @ file:../own",
    }
    for text, named in refused.items():
        (child / "pyproject.toml").write_text(text)
        assert (locking.main(["--image", "plain-cu13", "--"]), calls(child)) == (1, []), text
        assert f"pyproject.toml requires {named}: " in capsys.readouterr().err, text
    asked = ["own @ https://example.com/own-1.0-py3-none-any.whl", "own==1.0; python_version > '3'"]
    (child / "pyproject.toml").write_text(f"[project]\ndependencies = {json.dumps(asked)}\n")
    assert locking.main(["--image", "plain-cu13", "--"]) == 0


def test_wrong_use_is_one_line_and_changes_nothing(child: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (child / "uv.json").write_text(json.dumps({"--wrong": 2, "--db": 2}))
    lock = ["--image", "plain-cu13", "--"]
    for module, words, said in (
        (locking, [*lock, "--wrong"], ": see scripts/lock --help"),
        (locking, [*lock, "upgrade"], ": see scripts/lock --help"),
        (locking, [*lock, "--audit", "--db", "x"], ": see scripts/lock --help"),
        (environment, ["--wrong"], "setup: unknown option --wrong: see scripts/setup --help"),
        (environment, ["--framework"], "setup: --framework needs PACKAGE=="),
    ):
        assert module.main(words) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert said in line, words
    assert not [words for words in calls(child) if {"--output-file", "sync"} & {*words}]


@pytest.mark.parametrize("code", [1, 0])
def test_the_audit_asks_about_packages_of_an_index_only_and_passes_on_what_is_found(child: Path, code: int) -> None:
    """A database that does not answer is no all clear."""
    (child / "uv.json").write_text(json.dumps({"pip-audit": code}))
    (child / "requirements-dev.lock").write_text("requests==2.0 \\\n    --hash=sha256:3\n")
    before = {path.name: path.read_bytes() for path in child.glob("*.lock")}
    found = locking.main(["--image", "plain-cu13", "--", "--audit"])
    asked = (child / "audited").read_text()
    assert (found, "torch==2" in asked, "gpu-repo-runtime" in asked) == (code, True, False)
    assert {path.name: path.read_bytes() for path in child.glob("*.lock")} == before


@pytest.mark.slow
def test_what_was_written_down_and_not_locked_is_named(child: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The owner forgot scripts/lock: without a word the first import fails."""
    asked = '[project]\ndependencies = ["x>=1", "Torch[extra]>=2", "tqdm>=4", "My_Own~=1.0; python_version>\'3\'"]\n'
    (child / "pyproject.toml").write_text(asked)
    assert environment.main([]) == 0
    said = capsys.readouterr().err
    assert "requires tqdm>=4, My_Own~=1.0; python_version>'3', not in the locks: run scripts/lock" in said
    (child / "requirements-dev.lock").write_text("tqdm==4.1 \\\n    --hash=sha256:1\nmy-own==1.0 \\\n")
    assert environment.main([]) == 0
    assert "not in the locks" not in capsys.readouterr().err
    (child / "pyproject.toml").write_text("[project]\ndependencies = 3\n")
    assert environment.main([]) == 0, "what is wrong there does not end the setup"


@pytest.mark.slow
def test_a_machine_with_a_gpu_gets_the_packages_for_it(child: Path) -> None:
    assert environment.main(["--gpu"]) == 0
    assert "torch==2" in (child / "synced").read_text(), "there is no lock for the GPU: the one of all holds everything"
    (child / "requirements-gpu.lock").write_text("for the GPU\n")
    assert environment.main(["--gpu"]) == 0
    assert (child / "synced").read_text() == "for the GPU\n"
    assert environment.main([]) == 0
    assert "torch==2" in (child / "synced").read_text()


@pytest.mark.slow
def test_another_framework_takes_the_place_of_the_locked_one(child: Path) -> None:
    parts = ["tensorflow", "jax", "jaxlib", "jax-cuda13-plugin", "nvidia-cudnn-cu13", "triton"]
    with (child / "requirements.lock").open("a") as lock:
        lock.writelines(f"{name}==1 \\\n    --hash=sha256:1\n" for name in parts)
    assert environment.main(["--framework", "torch==9"]) == 0
    assert (child / "synced").read_text() == f"{WHEEL} \\\n    --hash=sha256:1\nx==1\n"
    tried, synced, installed = calls(child)
    assert {"--dry-run", "torch==9"} < set(tried), "whether it can be had is asked first"
    assert "sync" in synced
    assert "torch==9" in installed
    assert "--dry-run" not in installed


def test_a_chosen_framework_stays_until_the_locked_one_is_asked_for(child: Path) -> None:
    """scripts/lock and an update tell an owner to run scripts/setup, which must not download CUDA on a laptop."""
    for words, installed in ([["--framework", "torch==9"], 1], [[], 2], [["--framework", "locked"], 2], [[], 2]):
        assert environment.main(words) == 0
        assert len([one for one in calls(child) if "torch==9" in one and "--dry-run" not in one]) == installed, words


def test_a_framework_that_cannot_be_had_leaves_the_environment(child: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (child / "uv.json").write_text(json.dumps({"--dry-run": 1}))
    assert environment.main(["--framework", "torch==9"]) == 1
    assert "torch==9 was not found" in capsys.readouterr().err
    assert not (child / "synced").exists()


@pytest.mark.parametrize("code", [0, 1])
def test_another_runtime_is_locked_before_anything_is_installed(
    child: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    newer = WHEEL.replace("1.0", "2.0")
    (child / "wheels/requirements.in").write_text(f"# the runtime\n{newer}\n")
    program(child / "scripts/lock", f"#!/bin/sh\nenv >locked\nexit {code}\n")
    monkeypatch.setenv("PYTHONPATH", "wheels/of_this_program.whl")
    assert environment.main([]) == code
    said = capsys.readouterr().err
    assert f"{newer.rpartition(' @ ')[2]}, which requirements.lock does not name: running scripts/lock" in said
    assert "PYTHONPATH" not in (child / "locked").read_text()
    assert (child / "synced").exists() == (code == 0)
    assert ("commit the changed locks together with wheels/" in said) == (code == 0)


def test_what_uv_refuses_is_an_error(
    child: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (child / "uv.json").write_text(json.dumps({"sync": 2}))
    assert environment.main([]) == 2
    assert "the packages were not installed" in capsys.readouterr().err
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:secret@127.0.0.1:1/simple")
    assert environment.main([]) == 2
    said = capsys.readouterr().err
    assert "the package index 127.0.0.1 does not answer: check PIP_INDEX_URL" in said
    assert "secret" not in said


class BecameAnother(Exception):
    """This program was replaced by another: its path, its words, its environment."""


@pytest.fixture
def update(child: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return scripts/update's function, whose update is an error that says how it was started."""

    def execve(*given: object) -> None:
        raise BecameAnother(*given)

    monkeypatch.setattr("os.execve", execve)
    (child / "scripts/tools/copier.lock").write_text("copier==9\n")
    (child / "build/copier").mkdir(parents=True)
    project: Any = SimpleNamespace(say=lambda _: None)
    return lambda *words: tools.update(project, list(words))


@pytest.mark.slow
def test_the_update_runs_with_the_locked_copier_which_is_installed_once(child: Path, update: Any) -> None:
    for calls_of_uv in (2, 2):  # venv and sync, then none more
        with pytest.raises(BecameAnother) as started:
            update("--dry-run", "--to", "v1.0.0")
        _, words, environment = started.value.args
        assert words[1:] == ["-X", "utf8", "-m", "gpu_repo_runtime.update", "--dry-run", "--to", "v1.0.0"]
        assert environment["PYTHONPATH"] == str(RUNTIME), "the update would not be found"
        assert len(calls(child)) == calls_of_uv
    (child / "scripts/tools/copier.lock").write_text("copier==10\n")
    with pytest.raises(BecameAnother):
        update()
    assert len(calls(child)) == 4, "another Copier is locked"


@pytest.mark.slow
def test_without_copier_an_update_ends_with_1_and_is_tried_anew(child: Path, update: Any) -> None:
    (child / "uv.json").write_text(json.dumps({"sync": 3}))
    for _ in range(2):
        with pytest.raises(ScriptError, match="Copier was not installed") as failed:
            update()
        assert failed.value.code == 1, "3 would mean conflicts"


def test_a_notebook_finds_the_project_from_any_folder(child: Path) -> None:
    packages = child / ".venv/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    assert environment.main([]) == 0
    line = (packages / "project.pth").read_text()
    assert line == f"import sys; sys.path.insert(0, {str((child / 'src').resolve())!r})\n"


@pytest.fixture
def image(child: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the environment of an image that has x 1, and let the repository be in its container."""
    packages = tmp_path / "opt/env"
    record = packages / "lib/python3.13/site-packages/X-1.dist-info/METADATA"
    record.parent.mkdir(parents=True)
    record.write_text("Metadata-Version: 2.1\nName: X\nVersion: 1\n")
    monkeypatch.setattr(environment, "IMAGE", record)
    monkeypatch.setattr(environment, "PACKAGES", packages)
    (child / "requirements-dev.lock").write_text("")
    return packages


@pytest.mark.slow
def test_in_the_image_only_what_it_lacks_is_installed_and_its_packages_are_seen(child: Path, image: Path) -> None:
    program(image / "bin/uv", UV)
    for _ in range(2):  # a second time from what the first one left
        assert environment.main([]) == 0
        assert (child / "synced").read_text() == f"{WHEEL} \\\n    --hash=sha256:1\ntorch==2 \\\n    --hash=sha256:2\n"
    assert (child / ".venv/bin/uv").resolve() == image / "bin/uv"
    code = "import importlib.metadata as m; print(m.version('x'))"
    seen = subprocess.run([child / ".venv/bin/python", "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout == "1\n"


def test_an_image_without_uv_says_which_has_it(child: Path, image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(child.rglob("*"))
    assert environment.main([]) == 3
    assert "work in its stage dev, which .devcontainer opens" in capsys.readouterr().err
    assert sorted(child.rglob("*")) == before


def test_an_environment_of_others_behind_a_link_is_not_emptied(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "scratch/other"
    (other / "bin").mkdir(parents=True)
    Path(".venv").symlink_to(other)
    with pytest.raises(environment.SetupError, match=r"is a link to a folder that .* would be emptied"):
        environment.make_venv(environment.VENV)
    assert (other / "bin").is_dir()
