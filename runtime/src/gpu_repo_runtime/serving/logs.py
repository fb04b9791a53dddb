"""Logs on standard output: one JSON object a line, or short text on a terminal. A separate thread writes them."""

import asyncio
import hashlib
import json
import logging
import os
import sys
import threading
import time
import traceback
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

from pydantic_core import to_json

from .settings import Settings

# The reader of standard output may stop: a full disk, a stalled log shipper, Ctrl-S in a terminal. Then so many texts
# wait, further ones are dropped and counted, and requests are answered.
MAX_WAITING = 2000
# Lines that come together are written together: waking the thread for each would cost more.
GATHER_SECONDS = 0.01
# Time for the last lines when the process ends.
FLUSH_SECONDS = 0.4
Fields = dict[str, Any]
log, request_log = logging.getLogger(__name__), logging.getLogger("request")
handlers: list["Handler"] = []


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time (UTC), level, logger, message, the record's ``fields`` and its traceback.

    ``whole``: with the messages of exceptions, which may contain what a client sent.
    """

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__()
        self._whole = whole

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields = dict(getattr(record, "fields", {}))
        if error := record.exc_info[1] if record.exc_info else None:
            whole = self._whole or getattr(record, "whole", False)
            lines = traceback.format_exception(error) if whole else without_messages(error)
            fields["traceback"] = "".join(lines).rstrip()
        return self.line(record.created, record.levelname.lower(), record.name, record.getMessage(), fields)

    def line(self, seconds: float, level: str, logger: str, message: str, fields: Fields) -> str:
        """Return one line, in ASCII if it has signs that are not visible: they could steer a terminal."""
        line = {"time": _utc(seconds), "level": level, "logger": logger, "message": message, **fields}
        try:
            text = to_json(line, fallback=str).decode()  # twice as fast as json
        except ValueError:  # half a character, as file names may have
            text = "\n"
        return text if text.isprintable() else json.dumps(line, default=str)


class TextFormatter(JsonFormatter):
    """The same for people: ``12:30:01 info message key=value``, escaped where it could steer the terminal."""

    def line(self, seconds: float, level: str, logger: str, message: str, fields: Fields) -> str:
        """Return one line of text, and the traceback under it."""
        below = fields.pop("traceback", "").splitlines()
        words = "".join(f" {key}={value}" for key, value in fields.items())
        text = f"{time.strftime('%H:%M:%S', time.localtime(seconds))} {level} {message}{words}"
        lines = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in (text, *below))
        return "\n".join(lines)


class Handler(logging.Handler):
    """Lets a thread write the lines; ``put`` never waits. ``dropped`` counts lines."""

    def __init__(self, formatter: JsonFormatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.line, self.dropped = formatter.line, 0
        self.queue = SimpleQueue[str | threading.Event]()
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put the line of a record."""
        try:
            self.put(f"{self.format(record)}\n")
        except Exception:
            self.handleError(record)

    def put(self, text: str) -> None:
        """Write lines later, or drop them if too much waits."""
        if self.queue.qsize() < MAX_WAITING:
            self.queue.put(text)
        else:
            self.dropped += text.count("\n")

    def _write(self) -> None:
        while True:
            found = [self.queue.get()]
            time.sleep(GATHER_SECONDS)
            found += [self.queue.get() for _ in range(self.queue.qsize())]
            rest = "".join(one for one in found if isinstance(one, str)).encode(errors="backslashreplace")
            try:
                while rest:
                    rest = rest[os.write(1, rest) :]
            except OSError:  # the reader has gone, or the disk is full
                self.dropped += rest.count(b"\n")
            for one in found:
                if isinstance(one, threading.Event):
                    one.set()


def configure(settings: Settings) -> None:
    """Send every logger of the process to standard output in the chosen format."""
    text = settings.log_format == "text" or (settings.log_format == "auto" and os.isatty(1))
    handlers[:] = [Handler((TextFormatter if text else JsonFormatter)(whole=settings.log_level == "debug"))]
    logging.basicConfig(handlers=handlers, level=settings.log_level.upper(), force=True)
    logging.captureWarnings(True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # What Python would print of these contains the messages of exceptions, and is not a line of the log.
    threading.excepthook = lambda about: log.error("a thread ended with an error", exc_info=about.exc_value)
    sys.unraisablehook = lambda about: log.error("an error that nothing could catch", exc_info=about.exc_value)


def in_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Replace asyncio's own handler, which prints the message of an exception."""
    log.error("%s", context["message"], exc_info=context.get("exception"))


def write_requests(requests: list[Fields]) -> None:
    """Write a line for each request, which has these fields; not by ``logging``, which takes four times as long."""
    now = time.time()
    for handler in handlers:
        text = ""
        for fields in requests:
            number, level = (logging.ERROR, "error") if fields["status"] == 500 else (logging.INFO, "info")
            if request_log.isEnabledFor(number):
                text += f"{handler.line(now, level, request_log.name, 'request', fields)}\n"
        if text:
            handler.put(text)


def flush() -> None:
    """Write the last lines, if they are read soon."""
    for handler in handlers:
        written = threading.Event()
        handler.queue.put(written)
        written.wait(FLUSH_SECONDS)


@lru_cache(maxsize=1)  # requests are logged together
def _utc(seconds: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1e3):03d}Z"


def without_messages(error: BaseException) -> list[str]:
    """Return the traceback of an error and of what led to it: places and types, of messages length and hash."""
    lines: list[str] = []
    found: BaseException | None = error
    while found is not None:
        message = str(found)
        digest = hashlib.sha256(message.encode(errors="backslashreplace")).hexdigest()[:12]
        kept = f"{len(message)} characters, sha256 {digest}; whole with LOG_LEVEL=debug" if message else "no message"
        places = traceback.format_tb(found.__traceback__)
        before = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
        led = ["-- the above led to the following --\n"] if before else []
        lines = [*led, "Traceback (most recent call last):\n", *places, f"{type(found).__name__}: ({kept})\n", *lines]
        found = before
    return lines
