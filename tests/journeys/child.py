"""A repository on its owner's laptop: a shell in it, its service, and the page of the documentation to follow."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.journeys.blocks import Block, blocks, edited

NOT_A_USERS = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "RUN_IN", "IMAGE", "BASE_IMAGE")
SNIPPET = re.compile(r"(?ms)^```(\w+)\n(.*?)^```$")


class Child:
    """Pages write localhost:8000 for the service, which listens on a free port here."""

    def __init__(self, folder: Path, page: Path | None = None, variant: str = "") -> None:
        self.folder, self.package, self.variant = folder, folder.name.replace("-", "_"), variant
        self.blocks: list[Block] = list(blocks(page)) if page else []
        self.service: subprocess.Popen[str] | None = None
        self.log = folder.with_suffix(".log")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        own = {name: value for name, value in os.environ.items() if name not in NOT_A_USERS}
        self.environment = own | {"PORT": self.port, "LISTEN_HOST": "127.0.0.1"}

    def path(self, name: str) -> Path:
        """Return the path of a file as pages write it."""
        return self.folder / name.replace("<package>", self.package)

    def begin(self, command: str, output: int) -> subprocess.Popen[str]:
        """Start a command in the repository, in its own process group."""
        shell = ["bash", "-euo", "pipefail", "-c", command.replace("localhost:8000", f"localhost:{self.port}")]
        return subprocess.Popen(
            shell, cwd=self.folder, env=self.environment, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def sh(self, command: str, where: str = "", expect: str = "", fails: bool = False) -> str:
        """Run a command in the repository as a user types it, and return its output. It succeeds, or `fails`."""
        process = self.begin(command, subprocess.PIPE)
        output, _ = process.communicate(timeout=300)
        if bool(process.returncode) != fails or expect not in output:
            seen = f"{where}\n{self.folder}$ {command.strip()}\n{output[-5000:]}\nexit code {process.returncode}"
            seen += f"\nlog of the service:\n{self.log.read_text()[-3000:]}" if self.service else ""
            code = "another" if fails else "0"
            pytest.fail(f"{seen}, expected {code}{expect and f' and {expect!r} in the output'}", pytrace=False)
        return output

    def refused(self, command: str, expect: str) -> str:
        """Run a command that must fail with `expect` in its output, and return the output."""
        return self.sh(command, expect=expect, fails=True)

    def follow(self, section: str) -> str:
        """Do what the blocks of a section of the page show; return the output of the last command."""
        found, output = [one for one in self.blocks if one.section == section], ""
        assert found, f"the page has no section {section!r} with a block"
        for block in found:
            if block.mark == "file":
                path = self.path(block.value)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(edited(path.read_text(), block.text) if block.language == "diff" else block.text)
            elif block.mark == "start":
                self.serve(block.text, block.value)
            elif block.mark != "not run":
                output = self.sh(block.text, block.where, block.value)
        return output

    def shown(self, section: str, language: str) -> list[str]:
        """Return the page's blocks of a section for other places than this repository."""
        found = [block for block in self.blocks if (block.section, block.language) == (section, language)]
        return [block.text for block in found if block.mark == "not run"]

    def snippets(self, language: str) -> list[str]:
        """Return the code blocks of the repository's own README in a language; they have no marks."""
        found = SNIPPET.findall(self.path("README.md").read_text(encoding="utf-8"))
        return [text for name, text in found if name == language]

    def serve(self, command: str, ready: str) -> None:
        """Start a service and wait until it answers; the fixture stops it."""
        with self.log.open("w") as log:
            self.service = self.begin(f"exec env {command}", log.fileno())
        deadline = time.monotonic() + 60
        while not self.answers(ready):
            if self.service.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{self.folder}$ {command}\n{self.log.read_text()}\nno answer at {ready}", pytrace=False)
            with suppress(subprocess.TimeoutExpired):
                self.service.wait(0.1)

    def answers(self, path: str) -> bool:
        """Tell whether the service answers GET with a success."""
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return 200 <= answer.status < 300
        return False

    def stop(self) -> None:
        """Stop the service as Ctrl-C and Kubernetes do."""
        if self.service and self.service.poll() is None:
            self.service.terminate()
            code = self.service.wait(40)
            assert code == 0, f"the service stopped with exit code {code}:\n{self.log.read_text()[-3000:]}"
