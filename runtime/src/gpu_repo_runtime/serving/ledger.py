"""What is kept of every request: its count and its line in the log."""

import logging
import time
from functools import lru_cache
from typing import Any, NamedTuple

from . import logs
from .schemas import to_json
from .service import Service

log = logging.getLogger("request")
# Asked every few seconds by machines.
QUIET = frozenset({"/", "/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})


class Answered(NamedTuple):
    """A prediction that had its answer, 200, after ``seconds``."""

    route: str
    path: str
    request_id: str
    inputs: int
    batch: int
    queue_ms: float
    seconds: float


class Ledger:
    """Counts requests and writes their lines."""

    def __init__(self, service: Service) -> None:
        self._metrics = service.metrics

    def enter(self, route: str, fields: dict[str, Any], method: str, path: str, status: int, seconds: float) -> None:
        """Take in a request that has its answer, or whose client has gone (499)."""
        self._metrics.answered(route, status)
        if status == 200 and "batch" in fields:
            self._metrics.request_seconds.observe(seconds)
        if route not in QUIET or status == 500:
            fields |= {"method": method, "path": path, "status": status, "ms": round(seconds * 1e3, 2)}
            log.log(logging.ERROR if status == 500 else logging.INFO, "request", extra={"fields": fields})

    def enter_all(self, predictions: list[Answered]) -> None:
        """Take in what was answered together: the same counts and lines as one by one, in a part of the time."""
        for route in {one.route for one in predictions}:
            self._metrics.answered(route, 200, sum(one.route == route for one in predictions))
        self._metrics.request_seconds.observe_all([one.seconds for one in predictions])
        if not log.isEnabledFor(logging.INFO):
            return
        writer = logs.only_writer(log)
        if writer:
            writer.put(_lines(predictions))
            return
        for one in predictions:
            asked = {"request_id": one.request_id, "inputs": one.inputs, "batch": one.batch, "queue_ms": one.queue_ms}
            answered = {"method": "POST", "path": one.path, "status": 200, "ms": round(one.seconds * 1e3, 2)}
            log.info("request", extra={"fields": asked | answered})


def _lines(predictions: list[Answered]) -> str:
    """Return what JsonFormatter would write."""
    begin = f'{{"time":"{logs.utc(time.time())}","level":"info","logger":"request","message":"request","request_id":"'
    return "".join(
        [
            f'{begin}{one.request_id}","inputs":{one.inputs},"batch":{one.batch},"queue_ms":{one.queue_ms},'
            f'"method":"POST","path":{_json(one.path)},"status":200,"ms":{round(one.seconds * 1e3, 2)}}}\n'
            for one in predictions
        ]
    )


@lru_cache(maxsize=8)
def _json(path: str) -> str:
    return logs.visible(to_json(path).decode())
