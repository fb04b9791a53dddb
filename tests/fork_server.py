"""The process that tests/forked.py forks: it imports the libraries named on its command line, then waits for orders.

An order is JSON, {"command": [module, argument, ...], "cwd": "...", "environment": {...}, "ignored": [signal, ...]},
with four open files: the three standard streams, and the pipe that is told the process's id and then how it ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from typing import Any

from tests.forked import INHERITED, WIDTH


def next_order(orders: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return, in a fork, the next order and its streams. Ends this process when nobody is left to give orders."""
    while True:
        said, files, _, _ = socket.recv_fds(orders, 1 << 20, 4)
        if not said:
            sys.exit()
        *streams, ended = files
        if os.fork():
            for file in files:
                os.close(file)
            reap()
            continue
        orders.close()
        child = os.fork()
        if child == 0:
            os.close(ended)
            return json.loads(said), streams
        tell_the_end(child, ended)


def reap() -> None:
    """Take note of the ends that were told."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def tell_the_end(child: int, ended: int) -> None:
    """Wait for the process, say how it ended, and end."""
    os.closerange(0, 3)
    os.write(ended, str(child).zfill(WIDTH).encode())
    _, status = os.waitpid(child, 0)
    os.write(ended, str(status).zfill(WIDTH).encode())
    os._exit(0)


def become(order: dict[str, Any], streams: list[int], paths: list[str]) -> None:
    """Take over the order's folder, environment, streams, and its ways to modules."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number in INHERITED:
        normal = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in order["ignored"] else normal)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    own = [path for path in order["environment"].get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [order["cwd"], *own, *paths]
    sys.argv = list(order["command"])
    importlib.invalidate_caches()


if __name__ == "__main__":
    paths = sys.path[1:]
    for library in sys.argv[2:]:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()
    order, streams = next_order(socket.socket(fileno=int(sys.argv[1])))
    become(order, streams, paths)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
