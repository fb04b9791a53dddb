"""Load test of the service: a table of throughput and latency, and the same numbers as JSON. For scripts/bench.

Each client is a thread that sends its next request when it has the answer to the one before (a closed loop).
"""

import argparse
import contextlib
import http.client
import json
import math
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .client import UnexpectedAnswer, ask, authorization, examples, hint, started

ANSWER_S = 60
TIMES = ("p50", "p90", "p99", "longest")  # milliseconds
COLUMNS = "clients  answered  refused  failed     req/s   p50 ms   p90 ms   p99 ms   max ms"
Row = dict[str, Any]


def send(url: str, bodies: list[bytes], first: int, end: float) -> list[tuple[int, float]]:
    """Send one request after the other until `end`, from the first body on; return status and seconds of each.

    The status is 0 without an answer.
    """
    address = urlsplit(url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.netloc, timeout=ANSWER_S)
    headers = {"content-type": "application/json", **authorization()}
    answers: list[tuple[int, float]] = []
    while (now := time.perf_counter()) < end:
        try:
            connection.request("POST", f"{address.path}/predict", bodies[(first + len(answers)) % len(bodies)], headers)
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens another one
            status = 0
        answers.append((status, time.perf_counter() - now))
    connection.close()
    return answers


def load(url: str, inputs: list[Any], clients: int, seconds: float) -> Row:
    """Let clients send the inputs at the same time; return what came of them, as the JSON of scripts/bench has it.

    `statuses` counts the answers; "0" has none. Times of a load without answers are None.
    """
    bodies, began = [json.dumps({"instances": [one]}).encode() for one in inputs], time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        sent = [pool.submit(send, url, bodies, number, began + seconds) for number in range(clients)]
        answers = [answer for one in sent for answer in one.result()]
    took, statuses = time.perf_counter() - began, Counter(status for status, _ in answers)
    times = sorted(time_ for status, time_ in answers if status == 200)
    shares = [times[min(int(len(times) * share), len(times) - 1)] if times else None for share in (0.5, 0.9, 0.99, 1)]
    answered, refused = statuses[200], statuses[503]
    return {
        "clients": clients,
        "seconds": round(took, 2),
        "answered": answered,
        "refused": refused,
        "failed": len(answers) - answered - refused,
        "rate": round(answered / took, 1),
        **{name: one and round(one * 1e3, 2) for name, one in zip(TIMES, shares, strict=True)},
        "statuses": dict(statuses),
    }


def line(row: Row) -> str:
    """Return the line of a load in the table."""
    times = " ".join(f"{math.nan if row[name] is None else row[name]:8.2f}" for name in TIMES)
    counts = f"{row['clients']:7} {row['answered']:9} {row['refused']:8} {row['failed']:7}"
    return f"{counts} {row['rate']:9.1f} {times}"


def measure(url: str, clients: list[int], seconds: float) -> list[Row]:
    """Run every load, one after the other, and print its line of the table. Raises UnexpectedAnswer."""
    inputs = next(iter(examples(url).values()))
    print(COLUMNS)
    load(url, inputs, 4, min(1.0, seconds))  # warm up
    rows = []
    for count in clients:
        rows.append(load(url, inputs, count, seconds))
        print(line(rows[-1]), flush=True)
    return rows


def own_service() -> contextlib.AbstractContextManager[str]:
    """Start the project's service, quiet, and stop it in the end."""
    package = next(Path("src").glob("*/model.py")).parent.name
    return started(["gpu_repo_runtime.serving", package], math.inf)


def counts(text: str) -> list[int]:
    """Return the numbers in a text such as 1,4,16. Raises ValueError."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--url", default="", help="http://HOST:PORT")
    parser.add_argument("--clients", type=counts, default="1,4,16,64")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    if min(options.clients) < 1 or not 0 < options.seconds < math.inf:
        parser.error("expected clients for example 1,4,16 and a number of seconds above 0")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        with contextlib.nullcontext(options.url.rstrip("/")) if options.url else own_service() as url:
            rows = measure(url, options.clients, options.seconds)
            _, about = ask(f"{url}/livez")
        report = options.out / "bench.json"
        report.write_text(json.dumps({"service": about, "rows": rows}, indent=1), encoding="utf-8")
    except (UnexpectedAnswer, OSError) as error:
        sys.exit(f"bench: {error}")
    print(f"bench: wrote {report}")
    statuses = sum((Counter(row["statuses"]) for row in rows), Counter[int]())
    failed = [(status, count) for status, count in statuses.most_common() if status not in (200, 503)]
    if failed:
        status = failed[0][0]
        how = f"status {status}{hint(status)}" if status else "no answer"
        sys.exit(f"bench: {sum(count for _, count in failed)} requests failed, most of them with {how}")


if __name__ == "__main__":
    main()
