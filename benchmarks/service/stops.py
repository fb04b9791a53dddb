"""Stop the service under load, again and again, and count what happens to requests on kept and on new connections.

usage: python -m benchmarks.service.stops [--stops 8] [--out FILE]

16 clients send on a kept connection until an answer closes it; 8 open a connection for each request until one is
refused. `lost` are requests that were sent and got no answer; `refused` never had a connection, so a client or a
balancer can safely send them elsewhere. Writes benchmarks/results/service-stops.json.
"""

import argparse
import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from benchmarks import ROOT
from benchmarks.harness import machine, write_result
from benchmarks.service.run import JSON, TEXT, body, running, servers

OURS = servers(None)[0]


def client(kept: bool, counts: Counter[str]) -> None:
    """Send requests until the connection is closed, or a new one is not possible."""
    connection, outcome = HTTPConnection("127.0.0.1", OURS.port, timeout=20), "answered"
    while outcome == "answered":
        try:
            outcome = "refused"
            if connection.sock is None:
                connection.connect()
            outcome = "lost"
            connection.request("POST", OURS.path, body(TEXT), JSON)
            answer = connection.getresponse()
            outcome = "answered" if answer.read() and answer.status == 200 else "rejected"
        except (OSError, HTTPException):
            pass
        counts[f"{'kept' if kept else 'new'} {outcome}"] += 1
        if kept and outcome == "answered" and answer.getheader("connection") == "close":
            return
        if not kept:
            connection.close()


def one_stop() -> Counter[str]:
    """Return the counts of one stop."""
    counts: Counter[str] = Counter()
    with running(OURS, "device") as pid, ThreadPoolExecutor() as pool:
        clients = [pool.submit(client, number < 16, counts) for number in range(24)]
        time.sleep(0.5)
        os.kill(pid, signal.SIGTERM)  # uv, which passes it on
        for one in clients:
            one.result()
    return counts


def main() -> None:
    """Stop the service, print and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=8)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/service-stops.json")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for _ in range(options.stops):
        counts += one_stop()
        print(dict(counts), flush=True)
    about = machine(["uvicorn", "fastapi"], stops=options.stops)
    write_result(options.out, {"machine": about, "counts": dict(counts)})


if __name__ == "__main__":
    main()
