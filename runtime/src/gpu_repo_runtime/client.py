"""What scripts/bench and scripts/probe send to a service: its own examples, with the key that it requires.

scripts/probe runs it straight from the wheel: it needs nothing but Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

# API_KEY is the name in the documentation; API_TOKEN was it up to version 0.5.
NAMES = ("API_KEY", "API_TOKEN")


class UnexpectedAnswer(Exception):
    """The service did not answer as the service of this family does; the message says what to do."""


def authorization() -> dict[str, str]:
    """Return the header with the key of the environment, or no header if the environment has no key."""
    key = next(filter(None, map(os.environ.get, NAMES)), None)
    return {"authorization": f"Bearer {key}"} if key else {}


def ask(url: str, body: Any = None) -> tuple[int, Any]:
    """Return the status and the JSON of an answer; without an answer the status is 0, and the reason a text."""
    headers = {"content-type": "application/json", **authorization()}
    try:
        request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except (OSError, ValueError) as error:
        return 0, str(error)


def examples(url: str) -> dict[str, Any]:
    """Return the example of a request in the OpenAPI document of a service. Raises UnexpectedAnswer."""
    status, document = ask(f"{url}/openapi.json")
    try:
        content = document["paths"]["/predict"]["post"]["requestBody"]["content"]
        example: dict[str, Any] = content["application/json"]["example"]
    except (KeyError, TypeError):
        what = document if status != 200 else "without an example for /predict"
        raise UnexpectedAnswer(f"GET {url}/openapi.json: {status or 'no answer,'} {what}{hint(status)}") from None
    return example


def hint(status: int) -> str:
    """Return what to do about the status of an answer."""
    return f"; set {NAMES[0]} to the key that the service requires" if status in (401, 403) else ""


@contextlib.contextmanager
def started(module: Sequence[str], seconds: float) -> Iterator[str]:
    """Start a service on a free port, yield its address when it is ready, stop it. Raises UnexpectedAnswer.

    module: of `python -m`, with its arguments. After SIGTERM the service has to end with 0.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    around = {"LOG_LEVEL": "warning", **os.environ, "PORT": port, "LISTEN_HOST": "127.0.0.1"}
    url, end = f"http://127.0.0.1:{port}", time.monotonic() + seconds
    process = subprocess.Popen([sys.executable, "-m", *module], env=around)
    try:
        while (answer := ask(f"{url}/readyz"))[0] != 200:
            if process.poll() is not None:
                raise UnexpectedAnswer("the service did not start: its last lines above say why")
            if time.monotonic() > end:
                raise UnexpectedAnswer(f"the service was not ready within {seconds:g} s: /readyz answers {answer[1]}")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        code = process.wait()
    if code:
        raise UnexpectedAnswer(f"the service ended with {code} instead of 0 after SIGTERM")
