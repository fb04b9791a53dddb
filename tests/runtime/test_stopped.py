"""Ctrl-C in a program of the runtime ends it by that signal, in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.shared import RUNTIME, program

SLOW_UV = "#!/bin/sh\ntouch begun\nexec sleep 60\n"


def test_no_traceback_is_shown(tmp_path: Path) -> None:
    for name in ("uv", "python"):
        program(tmp_path / ".venv/bin" / name, SLOW_UV)
    for name in ("requirements.lock", "requirements-dev.lock", "constraints.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\nversion = "1"\n')
    environment = os.environ | {"PYTHONPATH": str(RUNTIME)}
    listening = ["env", "--default-signal=INT"]  # a background job of a shell hands down an ignored SIGINT
    command = [*listening, sys.executable, "-m", "gpu_repo_runtime.locking", "--image", "plain-cu13", "--"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not (tmp_path / "begun").exists() and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert "Traceback" not in told
    assert told.splitlines()[-1] == "stopped by Ctrl-C"
    assert process.returncode == -signal.SIGINT
