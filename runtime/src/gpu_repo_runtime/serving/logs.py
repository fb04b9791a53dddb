"""Logs on standard output: one JSON object a line, or short text on a terminal."""

import logging
import sys
import time
from typing import Any

from pydantic_core import to_json

from .settings import Settings


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time (UTC), level, logger, message, the record's ``fields`` and its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        line: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return to_json(line, fallback=str).decode()


class TextFormatter(logging.Formatter):
    """The same for people: ``12:30:01 info message key=value``, escaped where it could steer the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of text, and the traceback under it."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        fields = "".join(f" {key}={value}" for key, value in getattr(record, "fields", {}).items())
        text = _printable(f"{clock} {record.levelname.lower()} {record.getMessage()}{fields}")
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def configure(settings: Settings) -> None:
    """Send every logger of the process to standard output in the chosen format."""
    text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stdout.isatty())
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    # What nobody reads is not collected: it would cost time on every line (the logging documentation lists these).
    logging._srcfile = None
    for name in ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks"):
        setattr(logging, name, False)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
