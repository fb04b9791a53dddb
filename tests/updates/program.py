"""The update of one child, run in this process as scripts/update runs it."""

import json
import sys
from typing import Any

import pytest
from gpu_repo_runtime.update import cli

from tests.updates.tiny import Child


class Program:
    """The program, run on one child. `out` and `err` are what the last run printed."""

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
