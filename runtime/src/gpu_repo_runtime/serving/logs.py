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
from contextlib import suppress
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from ..words import words_of
from .settings import Settings

# The reader of standard output may stop: a full disk, a stalled log shipper, Ctrl-S in a terminal. Then lines wait up
# to this limit, further ones are dropped and counted, and requests are answered.
MAX_WAITING_CHARACTERS = 4_000_000
# Lines that come together are written together: waking the thread for each would cost more.
GATHER_SECONDS = 0.01
# Time for the last lines when the process ends.
FLUSH_SECONDS = 0.4
# Of a type's name, which code may make up.
NAME_CHARACTERS = 200
LEVELS = {"info": logging.INFO, "error": logging.ERROR}
Fields = dict[str, Any]
log, request_log = logging.getLogger(__name__), logging.getLogger("request")
handlers: list["Handler"] = []


class LogWriter:
    """Writes lines to the file descriptor ``target``; ``put`` never waits. ``dropped`` counts lines."""

    def __init__(self, target: int) -> None:
        self.dropped = 0
        self._target = target
        self._put, self._written = 0, 0  # characters; the second is the thread's own
        self._lock = threading.RLock()  # a signal may come while a line is put
        self._texts: list[str] = []
        self._wake = SimpleQueue[None]()
        threading.Thread(target=self._work, name="log", daemon=True).start()

    def put(self, text: str, lines: int = 1) -> None:
        """Write lines later, or drop them if too much waits."""
        with self._lock:
            if self._put - self._written > MAX_WAITING_CHARACTERS:
                self.dropped += lines
                return
            self._put += len(text)
            self._texts.append(text)
            if len(self._texts) == 1:
                self._wake.put(None)

    def flush(self, seconds: float) -> None:
        """Wait until everything is written, but no longer than ``seconds``."""
        end = time.monotonic() + seconds
        while self._written < self._put and time.monotonic() < end:
            time.sleep(0.002)

    def _work(self) -> None:
        while True:
            self._wake.get()
            time.sleep(GATHER_SECONDS)
            with self._lock:
                texts, self._texts = self._texts, []
            text = "".join(texts)
            rest = text.encode(errors="backslashreplace")
            while rest:
                try:
                    rest = rest[os.write(self._target, rest) :]
                except BlockingIOError:  # another process set the file to non-blocking
                    time.sleep(GATHER_SECONDS)
                except OSError:  # the reader has gone, or the disk is full
                    self.dropped += text.count("\n")
                    break
            self._written += len(text)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time (UTC), level, logger, message, the record's ``fields`` and its traceback.

    ``whole``: with the messages of exceptions, which may hold what a client sent.
    """

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__()
        self._whole = whole

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields = getattr(record, "fields", {})
        level, message = record.levelname.lower(), record.getMessage()
        return self.line(record.created, level, record.name, message, fields, self._traceback(record))

    def line(self, seconds: float, level: str, logger: str, message: str, fields: Fields, traceback: str = "") -> str:
        """Return one line, in ASCII if it has signs that are not visible: they could steer a terminal."""
        line = {"time": _utc(int(seconds * 1e3)), "level": level, "logger": logger, "message": message, **fields}
        if traceback:
            line["traceback"] = traceback
        with suppress(PydanticSerializationError):  # half a character, as file names may have
            text = to_json(line, fallback=words_of).decode()
            if text.isprintable():
                return text
        return json.dumps(line, default=words_of).replace("\x7f", "\\u007f")

    def _traceback(self, record: logging.LogRecord) -> str:
        """Return the traceback of a record; of messages only length and hash, unless the record has ``whole`` set."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return ""
        if self._whole or getattr(record, "whole", False):
            return "".join(traceback.format_exception(error)).rstrip()
        return "\n".join(_without_messages(error, set())).rstrip()


class TextFormatter(JsonFormatter):
    """The same for people: ``12:30:01 info message key=value``, escaped where it could steer the terminal."""

    def line(self, seconds: float, level: str, logger: str, message: str, fields: Fields, traceback: str = "") -> str:
        """Return one line of text, and the traceback under it."""
        words = "".join(f" {key}={value}" for key, value in fields.items())
        text = f"{time.strftime('%H:%M:%S', time.localtime(seconds))} {level} {message}{words}"
        return "\n".join(map(_printable, [text, *traceback.splitlines()]))


class Handler(logging.Handler):
    """Passes each record to ``writer`` as a line."""

    def __init__(self, formatter: JsonFormatter, writer: LogWriter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.line, self.writer = formatter.line, writer

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; never raises."""
        try:
            self.writer.put(self.format(record) + "\n")
        except BaseException:  # the owner's code may raise it, and logging's handleError would print all of it
            self.writer.put('{"level":"error","message":"a line of the log could not be written: its words raise"}\n')


def configure(settings: Settings) -> None:
    """Send every logger of the process to standard output in the chosen format."""
    text = settings.log_format == "text" or (settings.log_format == "auto" and os.isatty(1))
    formatter = (TextFormatter if text else JsonFormatter)(whole=settings.log_level == "debug")
    handlers[:] = [Handler(formatter, LogWriter(1))]
    logging.basicConfig(handlers=handlers, level=settings.log_level.upper(), force=True)
    logging.captureWarnings(True)
    # What Python would print of these contains the messages of exceptions, and is not a line of the log.
    threading.excepthook, sys.unraisablehook = _in_thread, _unraisable
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def write_requests(requests: list[Fields]) -> None:
    """Write a line for each request, which has these fields; not by ``logging``, which takes four times as long."""
    now = time.time()
    for handler in handlers:
        write, lines = handler.line, []
        for fields in requests:
            level = "error" if fields["status"] == 500 else "info"
            if request_log.isEnabledFor(LEVELS[level]):
                lines.append(write(now, level, request_log.name, "request", fields) + "\n")
        if lines:
            handler.writer.put("".join(lines), len(lines))


def flush() -> None:
    """Write the last lines, if they are read soon."""
    for handler in handlers:
        handler.writer.flush(FLUSH_SECONDS)


def in_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Replace asyncio's own handler, which prints the message of an exception."""
    log.error("%s", context["message"], exc_info=context.get("exception"))


def _in_thread(about: threading.ExceptHookArgs) -> None:
    if about.exc_type is not SystemExit:
        log.error("a thread ended with an error", exc_info=about.exc_value)


def _unraisable(about: Any) -> None:
    log.error("an error that nothing could catch", exc_info=about.exc_value)


@lru_cache(maxsize=1)  # requests are logged together
def _utc(milliseconds: int) -> str:
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
    return f"{second}.{milliseconds % 1000:03d}Z"


def _printable(text: str) -> str:
    """Return text with everything escaped that is not visible: control, line ends, direction of writing."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _without_messages(error: BaseException, seen: set[int]) -> list[str]:
    """Return the traceback of an error and of what led to it: places and types, of messages length and hash."""
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = []
    if before is not None and id(before) not in seen:
        how = "caused" if error.__cause__ else "came before"
        lines = [*_without_messages(before, seen), f"-- the above {how} the following --"]
    lines += ["Traceback (most recent call last):", *"".join(traceback.format_tb(error.__traceback__)).splitlines()]
    message = words_of(error)
    digest = hashlib.sha256(message.encode(errors="backslashreplace")).hexdigest()[:12]
    kept = f"{len(message)} characters, sha256 {digest}; whole with LOG_LEVEL=debug" if message else "no message"
    return [*lines, f"{_printable(type(error).__qualname__)[:NAME_CHARACTERS]}: ({kept})"]
