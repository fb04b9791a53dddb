"""The server process: it loads the model in the background, drains on SIGTERM, and its exit code shows how it went."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any, NoReturn

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..contract import ContractError, Model
from ..device import DeviceError
from . import logs
from .app import Extend, create_app
from .errors import EXIT_CONFIGURATION, EXIT_UNFINISHED, StartRefused
from .service import Service
from .settings import REMOVED, Settings, misspelled
from .startup import gpu_cause

log = logging.getLogger(__name__)
# Before it stops, the service still accepts requests for a while, and its answers close their connections: load
# balancers notice, and no request meets a closed port. At most a quarter of shutdown_seconds.
LAME_DUCK_SECONDS = 2.0
# Of these, the last part without new connections: what was connected has time to send its request.
LAST_SHARE = 0.25
# Of shutdown_seconds, for the end of the event loop and the last lines of the log.
RESERVE_SECONDS = 0.8


class ChooseParser(asyncio.Protocol):
    """Looks at the first bytes of a connection, then leaves it to the protocol of uvicorn that parses it.

    Java's HttpClient asks for HTTP/2 with ``Upgrade: h2c`` and is answered in HTTP/1.1. httptools, which is three times
    as fast, drops the body of such a request; h11 does not.
    """

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self._usual = HttpToolsProtocol(**arguments)

    def connection_made(self, transport: Any) -> None:
        """A connection is open."""
        self._transport = transport
        self._usual.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """The first bytes are here: usually the whole head."""
        protocol: Any = self._usual
        if b"h2c" in data.partition(b"\r\n\r\n")[0].lower():
            protocol.connection_lost(ConnectionError("another parser takes over"))
            protocol = H11Protocol(**self._arguments)
            protocol.connection_made(self._transport)
        self._transport.set_protocol(protocol)
        protocol.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed before a request came."""
        self._usual.connection_lost(exc)


class Server(uvicorn.Server):
    """uvicorn's server around a service. ``exit_code`` is that of the process."""

    def __init__(self, model: Model, settings: Settings, extend: Extend | None) -> None:
        app = create_app(model, settings, extend=extend, load=False)
        app.middleware_stack = app.build_middleware_stack()  # an error of one now, not with the first request
        self.settings, self.exit_code, self._ending = settings, 0, threading.Event()
        self.service: Service = app.state.service
        self._lame_duck = min(LAME_DUCK_SECONDS, settings.shutdown_seconds / 4)
        self.service.on_end = lambda code: self.end(code, self._lame_duck)
        config = uvicorn.Config(
            app,
            host=settings.listen_host,
            port=settings.port,
            http=ChooseParser,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,  # longer than the idle time of common load balancers, which then close first
            # uvicorn passes it to asyncio.wait_for, which takes parts of a second
            timeout_graceful_shutdown=max(0.1, settings.shutdown_seconds - self._lame_duck - RESERVE_SECONDS),  # type: ignore[arg-type]
            backlog=2048,
        )
        super().__init__(config)

    def serve_until_stopped(self) -> int:
        """Serve until the process is told to stop; return the exit code."""
        threading.Thread(target=self._end_in_time, daemon=True).start()
        try:
            listener = self.config.bind_socket()
        except SystemExit:
            where = f"LISTEN_HOST={self.settings.listen_host}, PORT={self.settings.port}"
            log.critical("refusing to start: cannot listen on %s (see the line before): set another PORT", where)
            return 1
        log.info("listening", extra={"fields": {"host": self.settings.listen_host, "port": listener.getsockname()[1]}})
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(self._serve_model(listener))
        if self.service.unfinished:
            log.error("SHUTDOWN_SECONDS were too short: %d accepted requests had no answer", self.service.unfinished)
            return self.exit_code or EXIT_UNFINISHED
        return self.exit_code

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain on the first signal; end at once on a second one. uvicorn calls it."""
        if self._ending.is_set():
            os._exit(128 + sig)
        self._ending.set()
        # No logging here: the signal may have interrupted the code that holds the lock. And a person at a terminal
        # does not wait for load balancers.
        seconds = 0 if sig == signal.SIGINT else self._lame_duck
        asyncio.get_running_loop().call_soon_threadsafe(self.end, 0, seconds, signal.Signals(sig).name)

    def end(self, code: int, seconds: float = 0.0, cause: str = "") -> None:
        """Let /readyz fail, after so many seconds accept no requests, answer what was accepted and end with ``code``.

        Call it in the event loop.
        """
        log.info("draining", extra={"fields": {"cause": cause or f"exit code {code}"}})
        self.exit_code = self.exit_code or code
        self._ending.set()
        self.service.drain()
        loop = asyncio.get_running_loop()
        for listener in self.servers:
            loop.call_later((1 - LAST_SHARE) * seconds, listener.close)
        loop.call_later(seconds, setattr, self, "should_exit", True)

    async def _serve_model(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().set_exception_handler(logs.in_loop)
        starting = asyncio.create_task(self._start_service())
        await self.serve([listener])
        starting.cancel()

    async def _start_service(self) -> None:
        try:
            await self.service.start()
        except DeviceError as error:
            device = "" if self.settings.device == "auto" else f"DEVICE={self.settings.device}, but "
            log.critical("refusing to start: %s%s", device, error, extra={"fields": await asyncio.to_thread(gpu_cause)})
            self.end(EXIT_CONFIGURATION)
        except (StartRefused, ContractError) as error:
            log.critical("refusing to start: %s", error)
            self.end(EXIT_CONFIGURATION)
        except (Exception, SystemExit) as error:
            _failed("the model could not be loaded", error)
            self.end(1)

    def _end_in_time(self) -> None:
        self._ending.wait()
        time.sleep(self.settings.shutdown_seconds - logs.FLUSH_SECONDS)
        logs.flush()
        os._exit(self.exit_code or EXIT_UNFINISHED)


def _failed(what: str, error: BaseException) -> None:
    text = f"{what}: {type(error).__name__}: {error}"
    hint = "; add it to pyproject.toml, then scripts/lock and scripts/setup" if "pip install" in text else ""
    log.critical("%s%s", text, hint, exc_info=error, extra={"whole": True})


def main(model: Model, settings_type: type[Settings], extend: Extend | None) -> None:
    """Run the service around ``model`` until it is told to stop; ends the process."""
    settings = settings_type()
    logs.configure(settings)
    for name, setting in sorted(misspelled(os.environ, settings_type).items()):
        log.warning("%s is not a setting and changes nothing: did you mean %s?", name, setting)
    for name in filter(os.environ.get, REMOVED):
        log.critical("refusing to start: %s: %s", name, REMOVED[name])
        _leave(EXIT_CONFIGURATION)
    # The model's thread must not wait 5 ms for the interpreter each time it has a result.
    sys.setswitchinterval(0.001)
    try:
        server = Server(model, settings, extend)
    except (StartRefused, ContractError) as error:
        log.critical("refusing to start: %s", error)
        _leave(EXIT_CONFIGURATION)
    except (Exception, SystemExit) as error:
        _failed("service.py cannot be used", error)
        _leave(1)
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", server.service.name)
    for line in server.service.interface.deprecations:
        log.warning("deprecated: %s", line)
    try:
        code = server.serve_until_stopped()
    except SystemExit as error:  # uvicorn's, if the owner's lifespan fails, or the owner's
        log.critical("the application ended: see the lines before", exc_info=error)
        code = 1
    log.info("stopped", extra={"fields": {"exit_code": code}})
    _leave(code)


def _leave(code: int) -> NoReturn:
    logs.flush()
    # Not sys.exit: a call of the model that never ends must not keep the process alive.
    os._exit(code)
