"""Logs on standard output: one JSON object a line, or short text on a terminal."""

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
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from ..words import words_of
from .log_writer import LogWriter
from .settings import Settings

# Time for the last lines when the process ends.
FLUSH_SECONDS = 0.4
# Of a type's name, which code may make up.
NAME_CHARACTERS = 200
log = logging.getLogger(__name__)
writers: list[LogWriter] = []
UNWRITABLE = '{"level":"error","message":"a line of the log could not be written: its words raise"}\n'


class _Formatter(logging.Formatter):
    """``whole``: with the messages of exceptions, which may hold what a client sent."""

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__()
        self._whole = whole

    def traceback(self, record: logging.LogRecord) -> str | None:
        """The traceback of a record; of messages only length and hash, unless the record has ``whole`` set."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return None
        if self._whole or getattr(record, "whole", False):
            return "".join(traceback.format_exception(error)).rstrip()
        return "\n".join(_without_messages(error, set())).rstrip()


class JsonFormatter(_Formatter):
    """A record as one line of JSON: time (UTC), level, logger, message, the record's ``fields`` and its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        line: dict[str, Any] = {
            "time": utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.traceback(record)
        try:
            text = to_json(line, fallback=words_of).decode()
        except PydanticSerializationError:  # half a character, as file names may have
            text = to_json({key: printable(words_of(value)) for key, value in line.items()}).decode()
        return visible(text)


def visible(text: str) -> str:
    """``text``, which is JSON, in ASCII if it has signs that are not visible: they could steer a terminal."""
    return text if text.isprintable() else json.dumps(json.loads(text), separators=(",", ":"))


def utc(seconds: float) -> str:
    """A time as the lines of JSON have it."""
    return f"{_utc_second(int(seconds))}.{int(seconds % 1 * 1000):03d}Z"


@lru_cache(maxsize=1)  # of the lines of a second, the first one
def _utc_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


class TextFormatter(_Formatter):
    """The same for people: ``12:30:01 info message key=value``, escaped where it could steer the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of text, and the traceback under it."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        fields = "".join(f" {key}={value}" for key, value in getattr(record, "fields", {}).items())
        text = printable(f"{clock} {record.levelname.lower()} {record.getMessage()}{fields}")
        lines = (self.traceback(record) or "").split("\n")
        return "\n".join([text, *map(printable, filter(None, lines))])


def printable(text: str) -> str:
    """``text`` with everything escaped that is not a visible sign: control, line ends, direction of writing."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _without_messages(error: BaseException, seen: set[int]) -> list[str]:
    """The traceback of ``error`` and of what led to it: places and types, of each message its length and hash."""
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
    return [*lines, f"{printable(type(error).__qualname__)[:NAME_CHARACTERS]}: ({kept})"]


class Handler(logging.Handler):
    """Passes each record to ``writer`` as a line."""

    writer: LogWriter

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; never raises."""
        try:
            self.writer.put(self.format(record) + "\n")
        except BaseException:  # the owner's code may raise it, and logging's handleError would print all of it
            self.writer.put(UNWRITABLE)

    def line(self, message: str) -> str:
        """Return a warning in the format of the log."""
        return self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, message, None, None)) + "\n"


def configure(settings: Settings) -> None:
    """Send every logger of the process to standard output in the chosen format."""
    text = settings.log_format == "text" or (settings.log_format == "auto" and os.isatty(1))
    whole = settings.log_level == "debug"
    handler = Handler()
    handler.setFormatter(TextFormatter(whole=whole) if text else JsonFormatter(whole=whole))
    handler.writer = LogWriter(1, handler.line)
    writers[:] = [handler.writer]
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    logging.captureWarnings(True)
    # What Python would print of these contains the messages of exceptions, and is not a line of the log.
    threading.excepthook, sys.unraisablehook = _in_thread, _unraisable
    # Not in the lines: the documentation of logging lists these as optimizations.
    logging._srcfile = None
    for name in ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks"):
        setattr(logging, name, False)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def in_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Replace asyncio's own handler, which prints the message of an exception."""
    log.error("%s", context["message"], exc_info=context.get("exception"))


def _in_thread(about: threading.ExceptHookArgs) -> None:
    if about.exc_type is not SystemExit:
        log.error("a thread ended with an error", exc_info=about.exc_value)


def _unraisable(about: Any) -> None:
    log.error("an error that nothing could catch", exc_info=about.exc_value)


def flush() -> None:
    """Write the last lines, if they are read soon."""
    for writer in writers:
        writer.flush(FLUSH_SECONDS)
