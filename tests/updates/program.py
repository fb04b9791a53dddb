"""The safe update as a program, run in this process on one child."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from gpu_repo_runtime.update import cli, template_versions

from tests.updates.tiny import Child


class Program:
    """The program, run on one child."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.out = self.err = ""

    def __call__(self, child: Child, *options: str) -> int:
        self.monkeypatch.setattr(sys, "argv", ["update", "--repository", str(child.path), *options])
        template_versions.fetched.cache_clear()
        self.capsys.readouterr()
        code = cli.main()
        self.out, self.err = self.capsys.readouterr()
        return code

    def files(self, child: Child, *options: str) -> dict[str, str]:
        """Run with --json and return the kind of each file but Copier's own."""
        self(child, "--json", *options)
        told: dict[str, Any] = json.loads(self.out)
        return {file["path"]: file["kind"] for file in told["files"] if file["path"] != ".copier-answers.yml"}
