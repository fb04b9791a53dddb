"""Copier's command line behind a pipe, so that tests pay for its imports once: `python copier_server.py`.

Each request is one line of JSON on standard input: {"arguments": [...], "cwd": "...", "environment": {...}}.
Each is run by a fork with that folder and environment, as a program of its own, and answered by one line:
{"code": 0, "stdout": "...", "stderr": "..."}.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from copier.__main__ import CopierApp


def be_copier(request: dict[str, Any]) -> NoReturn:
    """Run Copier in this process and end it with Copier's exit code."""
    code = 1
    try:
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        CopierApp.run(["copier", *request["arguments"]])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run one request in a fork; return its exit code and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "stdout"), Path(folder, "stderr")
        child = os.fork()
        if child == 0:
            for path, number in ((out, 1), (err, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            be_copier(request)
        _, status = os.waitpid(child, 0)
        texts = {"stdout": out.read_text(encoding="utf-8"), "stderr": err.read_text(encoding="utf-8")}
    return {"code": os.waitstatus_to_exitcode(status), **texts}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
