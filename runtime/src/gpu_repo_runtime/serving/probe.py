"""Wait until the service on this machine is ready and send it the examples of its own interface; for scripts/probe."""

import os
import sys
import time

from ..client import UnexpectedAnswer, ask, examples, hint, wait_until_ready

URL = f"http://127.0.0.1:{os.environ.get('PORT', '8000')}"
READY_SECONDS = float(os.environ.get("READY_SECONDS") or 300)
P95_MS = float(os.environ.get("P95_MS") or 0)
REQUESTS = 50


def main() -> None:
    """Ask, check every answer, say how fast they were."""
    try:
        ready, example = wait_until_ready(URL, READY_SECONDS), examples(URL)
    except UnexpectedAnswer as error:
        sys.exit(f"probe: {error}")
    [inputs] = (len(values) for values in example.values())  # named instances, or texts as in version 0.2
    times = []
    for _ in range(REQUESTS):
        started = time.perf_counter()
        status, answer = ask(f"{URL}/predict", example)
        times.append((time.perf_counter() - started) * 1e3)
        if status != 200 or len(answer["predictions"]) != inputs:
            sys.exit(f"probe: {inputs} inputs were answered with {status} {answer}{hint(status)}")
    p95 = sorted(times)[int(REQUESTS * 0.95)]
    device = ask(f"{URL}/livez")[1]["device"]
    said = f"ready after {ready:.1f} s, {REQUESTS} requests on {device}, 95 % within {p95:.1f} ms"
    print(f"probe: {said}", file=sys.stderr)
    if P95_MS and p95 > P95_MS:
        sys.exit(f"probe: 95 % of the requests within {p95:.1f} ms, the limit is {P95_MS:.0f} ms")


if __name__ == "__main__":
    main()
