"""The server process: start in the background, drain on SIGTERM, end with a code that says how it went."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

import uvicorn

from ..contract import ContractError, Model
from ..device import DeviceError
from ..words import words_of
from . import logs
from .app import create_app
from .connection import Limits
from .door import Door
from .errors import EXIT_CONFIGURATION, EXIT_UNFINISHED, StartRefused
from .gpu_cause import gpu_cause
from .hooks import Hooks, build_middleware
from .listener import CannotListen, drain, listen
from .protocol import http_protocol
from .service import Service
from .settings import Settings, misspelled
from .writer import Dropped

log = logging.getLogger(__name__)
# Between closing the listener and closing idle connections, where a request may be on its way.
LAST_REQUESTS_SECONDS = 0.3
# /livez stays red and reachable this long before the process ends.
LOST_SECONDS = 1.0
# Of shutdown_seconds, to leave in order.
RESERVE_SECONDS = 0.8


class Server(uvicorn.Server):
    """uvicorn with a drain that loses no request, and with an exit code."""

    def __init__(self, model: Model, settings: Settings, hooks: Hooks) -> None:
        self.settings, self.exit_code, self.signal = settings, 0, 0
        self._ending, self._ended_at = threading.Event(), 0.0
        self._starting: asyncio.Task[None] | None = None
        self.app = create_app(model, settings, extend=hooks.extend, on_start=self._start)
        build_middleware(self.app)
        self.service: Service = self.app.state.service
        self.service.metrics.registry.register(Dropped(logs.writers))
        self.limits = Limits(settings.body_seconds, settings.app_version)
        super().__init__(
            uvicorn.Config(
                self.app,
                host=settings.listen_host,
                port=settings.port,
                http=http_protocol(self.limits, Door(self.app, self.service)),
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,  # longer than the idle time of common load balancers, which then close first
                backlog=2048,
            )
        )

    def _start(self, service: Service) -> None:
        service.on_end = self._end_soon
        self._starting = asyncio.create_task(self._start_service())

    def _end_soon(self, code: int) -> None:
        asyncio.get_running_loop().call_later(LOST_SECONDS, self.end, code)

    async def _start_service(self) -> None:
        try:
            await self.service.start()
        except DeviceError as error:
            cause = await asyncio.to_thread(gpu_cause)
            asked = "" if self.settings.device == "auto" else f"DEVICE={self.settings.device}, but "
            log.critical("refusing to start: %s%s", asked, error, extra={"fields": cause})
            self.end(EXIT_CONFIGURATION)
        except (StartRefused, ContractError) as error:
            log.critical("refusing to start: %s", error)
            self.end(EXIT_CONFIGURATION)
        except Exception as error:
            _not_loaded(error)
            self.end(1)

    def end(self, code: int) -> None:
        """Drain, then end with ``code``, at the latest after shutdown_seconds."""
        self.exit_code = self.exit_code or code
        self.should_exit = True
        self._ended_at = self._ended_at or time.monotonic()
        self._ending.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On SIGTERM, SIGINT or SIGHUP drain; on a second SIGTERM or SIGINT end at once."""
        if self.signal and signal.SIGHUP not in (sig, self.signal):
            os._exit(128 + sig)
        # Nothing that takes a lock, such as logging: this may have interrupted the code that holds it.
        if sig != signal.SIGHUP or not self.signal:
            self.signal = sig
        self.end(0)

    def _end_in_time(self) -> None:
        self._ending.wait()
        time.sleep(self.settings.shutdown_seconds - logs.FLUSH_SECONDS)
        logs.flush()
        os._exit(self.exit_code or EXIT_UNFINISHED)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        threading.Thread(target=self._end_in_time, daemon=True).start()
        asyncio.get_running_loop().set_exception_handler(logs.in_loop)
        await super().startup(sockets)
        if self._starting is None:
            log.critical(
                "refusing to start: the lifespan of the application was replaced in service.py, and with it what loads "
                "the model: call the one that app.router.lifespan_context was before, around yours"
            )
            self.end(EXIT_CONFIGURATION)
        port = self.servers[0].sockets[0].getsockname()[1]
        log.info("listening", extra={"fields": {"host": self.settings.listen_host, "port": port}})

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept who waits, close the listener, serve what is on its way, then what was accepted."""
        log.info("draining", extra={"fields": {"cause": signal.Signals(self.signal).name if self.signal else "own"}})
        self.limits.draining = True
        self.service.drain()
        await drain([listener for server in self.servers for listener in server.sockets])
        for server in self.servers:
            server.close()
        await asyncio.sleep(LAST_REQUESTS_SECONDS)
        # From the signal on, as _end_in_time counts: the loop may have been busy with answers when it came.
        gone = time.monotonic() - self._ended_at if self._ended_at else 0.0
        left = self.settings.shutdown_seconds - RESERVE_SECONDS - gone
        self.config.timeout_graceful_shutdown = max(left, 0.1)  # type: ignore[assignment]  # for asyncio.wait_for
        await super().shutdown(sockets)
        cut = self.limits.cut + sum(getattr(open_, "cut_off", False) for open_ in self.server_state.connections)
        if cut:
            log.error("%d answers were cut off: their clients did not read them", cut)
        if self.service.unfinished:
            log.error("SHUTDOWN_SECONDS were too short: %d accepted requests had no answer", self.service.unfinished)
        if cut or self.service.unfinished:
            self.exit_code = self.exit_code or EXIT_UNFINISHED


def _not_loaded(error: BaseException) -> None:
    about = "the model could not be loaded: %s: %s"
    log.critical(about, type(error).__name__, words_of(error), exc_info=error, extra={"whole": True})


def main(model: Model, hooks: Hooks) -> None:
    """Run the service around ``model`` until it is told to stop; ends the process."""
    settings = hooks.settings()
    logs.configure(settings)
    for name, setting in sorted(misspelled(os.environ, hooks.settings).items()):
        log.warning("%s is not a setting and changes nothing: did you mean %s?", name, setting)
    # The model's thread must not wait 5 ms for the interpreter each time it has a result.
    sys.setswitchinterval(0.001)
    if hooks.unused:
        log.warning(hooks.unused)
    try:
        server = Server(model, settings, hooks)
    except (StartRefused, ContractError) as error:
        log.critical("refusing to start: %s", error)
        _leave(EXIT_CONFIGURATION)
    except (Exception, SystemExit) as error:
        _not_loaded(error)
        _leave(1)
    try:
        sockets = listen(settings.listen_host, settings.port)
    except CannotListen as error:
        log.critical("refusing to start: %s", error)
        _leave(error.exit_code)
    for line in server.service.interface.deprecations:
        log.warning("deprecated: %s", line)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(sig) is not signal.SIG_IGN:  # as nohup sets it for SIGHUP
            signal.signal(sig, server.handle_exit)
    try:
        server.run(sockets)
    except SystemExit as ended:  # of uvicorn, where the application does not start, or of the owner's code
        about = "while it served" if server.started else "at its start: the lines before say why"
        log.critical("the application ended %s", about, exc_info=ended)
        _leave(1)
    log.info("stopped", extra={"fields": {"exit_code": server.exit_code}})
    _leave(server.exit_code)


def _leave(code: int) -> NoReturn:
    logs.flush()
    # Not sys.exit: a call of the model that never ends must not keep the process alive.
    os._exit(code)
