"""Ctrl-C in a program of the runtime ends it by that signal, in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.answers import AnswerSet
from tests.shared import program
from tests.templates.own import own_copy

SLOW_UV = "#!/bin/sh\ntouch begun\nexec sleep 60\n"


def test_no_traceback_is_shown(render: Callable[[AnswerSet], Path], tmp_path: Path) -> None:
    child = own_copy(render(AnswerSet("library", "plain")), tmp_path)
    program(child / ".venv/bin/uv", SLOW_UV)
    (child / ".venv/bin/python").symlink_to(sys.executable)
    # A background job of a shell hands down an ignored SIGINT.
    command = ["env", "--default-signal=INT", "scripts/lock"]
    with subprocess.Popen(
        command, cwd=child, env=os.environ, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not (child / "begun").exists() and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert "Traceback" not in told
    assert told.splitlines()[-1] == "stopped by Ctrl-C"
    assert process.returncode == -signal.SIGINT
