"""Start the service, send it the examples of its own interface, and stop it; for scripts/probe."""

import os
import sys
import time

from ..client import UnexpectedAnswer, ask, examples, hint, started

READY_SECONDS = float(os.environ.get("READY_SECONDS") or 300)
P95_MS = float(os.environ.get("P95_MS") or 0)
REQUESTS = 50


def probe(url: str) -> None:
    """Check every answer and say how fast they were. Raises UnexpectedAnswer."""
    example = examples(url)
    [inputs] = (len(values) for values in example.values())  # named instances, or texts as in version 0.2
    times = []
    for _ in range(REQUESTS):
        begin = time.perf_counter()
        status, answer = ask(f"{url}/predict", example)
        times.append((time.perf_counter() - begin) * 1e3)
        if status != 200 or len(answer["predictions"]) != inputs:
            raise UnexpectedAnswer(f"{inputs} inputs were answered with {status} {answer}{hint(status)}")
    p95 = sorted(times)[int(REQUESTS * 0.95)]
    print(f"probe: {REQUESTS} requests, 95 % within {p95:.1f} ms", file=sys.stderr)
    if P95_MS and p95 > P95_MS:
        raise UnexpectedAnswer(f"95 % of the requests within {p95:.1f} ms, the limit is {P95_MS:.0f} ms")


if __name__ == "__main__":
    os.environ["API_KEY"] = os.environ.get("API_KEY") or "any"
    try:
        with started(sys.argv[1:], READY_SECONDS) as address:
            probe(address)
    except UnexpectedAnswer as error:
        sys.exit(f"probe: {error}")
