"""`python -m MODULE` as a process, for tests of the service and the batch job."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


class Process(subprocess.Popen[str]):
    """`python -m MODULE ARGUMENTS`; the options are those of subprocess.Popen, with text streams."""

    def __init__(self, module: str, *arguments: str, **options: Any) -> None:
        super().__init__([sys.executable, "-m", module, *arguments], **{"text": True, **options})


def run(module: str, *arguments: str, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run it and return its exit code and output."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)
