"""Ports for servers that are started a moment later."""

import contextlib
import random
import socket

# Below those that Linux gives out by itself (32768 and up): on a busy machine another process had the port by then.
FROM, TO = 20_000, 32_000


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    while True:
        port = random.randint(FROM, TO)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
