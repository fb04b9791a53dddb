"""Copier and the programs of hooks/ and tools/ behind a pipe, so that tests pay for their imports once.

Each request is one line of JSON on standard input: {"program": "...", "arguments": [...], "cwd": "...",
"environment": {...}}. Each is run by a fork with that folder and environment, as a program of its own, and answered
by one line: {"code": 0, "stdout": "...", "stderr": "..."}.
"""

import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

import plumbum
from copier.__main__ import CopierApp

PROGRAMS = {name: importlib.import_module(name) for name in ("fleet", "new", "release", "safe_update")}


def be_program(request: dict[str, Any]) -> NoReturn:
    """Run the program in this process and end it with the program's exit code."""
    code = 1
    try:
        os.chdir(request["cwd"])
        for environment in (os.environ, plumbum.local.env):  # the second is what Copier gives to git
            environment.clear()
            environment.update(request["environment"])
        sys.argv = [request["program"], *request["arguments"]]
        if request["program"] == "copier":
            CopierApp.run(sys.argv)
        sys.exit(PROGRAMS[request["program"]].main())
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
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
            be_program(request)
        _, status = os.waitpid(child, 0)
        texts = {"stdout": out.read_text(encoding="utf-8"), "stderr": err.read_text(encoding="utf-8")}
    return {"code": os.waitstatus_to_exitcode(status), **texts}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
