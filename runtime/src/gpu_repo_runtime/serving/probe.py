"""Wait until the service on this machine is ready and send it the examples of its own interface; for scripts/probe."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

from .api_key import NAMES, authorization

URL = f"http://127.0.0.1:{os.environ.get('PORT', '8000')}"
READY_SECONDS = float(os.environ.get("READY_SECONDS") or 300)
P95_MS = float(os.environ.get("P95_MS") or 0)
REQUESTS = 50


def ask(path: str, body: Any = None) -> tuple[int, Any]:
    """Return status and JSON of an answer; status 0 when nobody answers."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{URL}{path}", data, {"content-type": "application/json", **authorization()})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)


def wait() -> float:
    """Return the seconds until /readyz answers 200; end the program when that takes too long."""
    started = time.monotonic()
    while True:
        status, said = ask("/readyz")
        seconds = time.monotonic() - started
        if status == 200:
            return seconds
        if seconds > READY_SECONDS:
            sys.exit(f"probe: not ready after {seconds:.0f} s; /readyz says {status} {said}")
        time.sleep(0.2)


def main() -> None:
    """Ask, check every answer, say how fast they were."""
    ready = wait()
    status, document = ask("/openapi.json")
    if status != 200:
        hint = f"; does it require a key? set {NAMES[0]}" if status in (401, 403) else ""
        sys.exit(f"probe: GET /openapi.json was answered with {status} {document}{hint}")
    example = document["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["example"]
    [inputs] = (len(values) for values in example.values())  # named instances, or texts as in version 0.2
    times = []
    for _ in range(REQUESTS):
        started = time.perf_counter()
        status, answer = ask("/predict", example)
        times.append((time.perf_counter() - started) * 1e3)
        if status != 200 or len(answer["predictions"]) != inputs:
            hint = f"; set {NAMES[0]} to the key that the service requires" if status in (401, 403) else ""
            sys.exit(f"probe: {inputs} inputs were answered with {status} {answer}{hint}")
    p95 = sorted(times)[int(REQUESTS * 0.95)]
    device = ask("/livez")[1]["device"]
    said = f"ready after {ready:.1f} s, {REQUESTS} requests on {device}, 95 % within {p95:.1f} ms"
    print(f"probe: {said}", file=sys.stderr)
    if P95_MS and p95 > P95_MS:
        sys.exit(f"probe: 95 % of the requests within {p95:.1f} ms, the limit is {P95_MS:.0f} ms")


if __name__ == "__main__":
    main()
