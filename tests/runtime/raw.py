"""HTTP by hand over a socket, for what no client library would send."""

from __future__ import annotations

import json
import socket
from typing import Any

DEADLINE_SECONDS = 20


def connect(service: Any, receive_buffer: int = 0) -> socket.socket:
    """Return an open connection to a service; a small `receive_buffer` (bytes) is soon full."""
    connection = socket.socket()
    connection.settimeout(DEADLINE_SECONDS)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect(("127.0.0.1", service.port))
    return connection


def predict(*texts: str, version: str = "1.1", headers: str = "") -> bytes:
    """Return the bytes of a request to predict texts; `headers` are whole lines."""
    body = json.dumps({"texts": texts}).encode()
    head = f"POST /predict HTTP/{version}\r\nhost: x\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def read(connection: socket.socket) -> bytes:
    """Return everything until the service closes the connection. Raises ConnectionError when it is reset."""
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
    return answer


def ask(service: Any, request: bytes) -> bytes:
    """Return what a new connection answers to `request` until it is closed."""
    with connect(service) as connection:
        connection.sendall(request)
        return read(connection)
