"""Templates of a few files, and children made from them, for tests of one behaviour each."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime.update import cli

from tests.updates.copiers import Copier

ANSWERS_FILE = {"{{ _copier_conf.answers_file }}.jinja": "{{ _copier_answers | to_nice_yaml }}"}
TEN_LINES = "".join(f"line {number}\n" for number in range(1, 11))
MARKER = "<<<<<<< "


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write `files` (path to text) under `folder`."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@dataclass
class Repository:
    """A git repository that a test works on."""

    path: Path
    copier: Copier

    def git(self, *arguments: str) -> str:
        """Run git here and return what it prints. Raises CalledProcessError."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=self.copier.environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def commit(self, message: str = "A change") -> None:
        """Commit everything that is in the work tree."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")

    def read(self, name: str) -> str:
        """Return the text of one file."""
        return (self.path / name).read_text(encoding="utf-8", errors="surrogateescape")

    def has(self, name: str) -> bool:
        """Tell whether a file is there."""
        return (self.path / name).exists()


@dataclass
class Template(Repository):
    """A template whose versions are given as whole dicts of files."""

    def release(self, version: str, files: Mapping[str, str], settings: str = "") -> None:
        """Make `files` and `settings` (the text of copier.yml) the content of the tag `version`."""
        if not self.path.exists():
            self.path.mkdir(parents=True)
            self.git("init", "--quiet")
        for entry in self.path.iterdir():
            if entry.name != ".git":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        write_files(self.path, {**ANSWERS_FILE, **files, "copier.yml": settings or "{}\n"})
        self.commit(version)
        self.git("tag", version)


@dataclass
class Child(Repository):
    """A repository made from a template."""

    def updated(self, *options: str) -> None:
        """Run plain `copier update` with default answers."""
        done = self.copier.run("update", "--defaults", *options, cwd=self.path)
        assert done.returncode == 0, done.stderr

    def edit(self, files: Mapping[str, str | None]) -> None:
        """Write the owner's `files` (None deletes one) and commit them."""
        for name, text in files.items():
            if text is None:
                (self.path / name).unlink()
            else:
                write_files(self.path, {name: text})
        self.commit("The owner's edit")

    def unmerged(self) -> set[str]:
        """Return the files that git holds as conflicts."""
        return {line.split("\t")[1] for line in self.git("ls-files", "--unmerged").splitlines()}

    def status(self) -> dict[str, str]:
        """Return git's two letters for each file that is not as committed."""
        lines = self.git("status", "--porcelain", "--untracked-files=all").splitlines()
        return {line[3:]: line[:2] for line in lines}


class Program:
    """The update of a child, run in this process as scripts/update runs it; `out` and `err` are its last output."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.out = self.err = ""

    def __call__(self, child: Child, *options: str) -> int:
        self.monkeypatch.setattr(sys, "argv", ["update", "--repository", str(child.path), *options])
        self.capsys.readouterr()
        code = cli.main()
        self.out, self.err = self.capsys.readouterr()
        return code

    def result(self, child: Child, *options: str) -> dict[str, Any]:
        """Run with --json and return what it prints."""
        self(child, "--json", *options)
        found: dict[str, Any] = json.loads(self.out)
        return found

    def files(self, child: Child, *options: str) -> dict[str, str]:
        """Run with --json and return the kind of each file but Copier's own."""
        files = self.result(child, *options)["files"]
        return {file["path"]: file["kind"] for file in files if file["path"] != ".copier-answers.yml"}


def make_child(template: Repository, path: Path, *options: str, edits: Mapping[str, str | None] | None = None) -> Child:
    """Render `template` into `path` as a repository with one commit, and one more for the owner's `edits`."""
    done = template.copier.run("copy", "--defaults", *options, template.path, path, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    child = Child(path, template.copier)
    child.git("init", "--quiet")
    child.commit("Start from the template")
    if edits:
        child.edit(edits)
    return child
