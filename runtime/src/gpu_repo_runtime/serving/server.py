"""The server process: start in the background, drain on SIGTERM, end with an exit code that shows how it went."""

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
from .errors import EXIT_CONFIGURATION, EXIT_UNFINISHED, StartRefused
from .gpu_cause import gpu_cause
from .hooks import Hooks, build_middleware
from .service import Service
from .settings import REMOVED, Settings, misspelled
from .upgrade import ChooseParser

log = logging.getLogger(__name__)
# After SIGTERM the service still accepts requests for a while, and its answers close their connections: load balancers
# notice, and no request meets a closed port. At most a quarter of shutdown_seconds.
LAME_DUCK_SECONDS = 2.0
# Of these, the last part without new connections: what was connected has time to send its request.
LAST_SHARE = 0.25
# /livez fails and can be reached this long before the process ends.
LOST_SECONDS = 1.0
# Of shutdown_seconds, for the end of the event loop and the last lines of the log.
RESERVE_SECONDS = 0.8
EXIT_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Process:
    """The start and the end of the service in this process."""

    def __init__(self, model: Model, settings: Settings, hooks: Hooks) -> None:
        self.settings, self.exit_code, self.signal = settings, 0, 0
        self._ending = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        app = create_app(model, settings, extend=hooks.extend, load=False)
        build_middleware(app)
        self.service: Service = app.state.service
        self.service.on_end = self._end_soon
        self._lame_duck = min(LAME_DUCK_SECONDS, settings.shutdown_seconds / 4)
        self.config = uvicorn.Config(
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
        self.server = uvicorn.Server(self.config)

    def run(self) -> int:
        """Serve until the process is told to stop; return the exit code."""
        threading.Thread(target=self._end_in_time, daemon=True).start()
        self._take_signals()
        try:
            listener = self.config.bind_socket()
        except SystemExit:
            where = f"LISTEN_HOST={self.settings.listen_host}, PORT={self.settings.port}"
            log.critical("refusing to start: cannot listen on %s (see the line before): set another PORT", where)
            return 1
        log.info("listening", extra={"fields": {"host": self.settings.listen_host, "port": listener.getsockname()[1]}})
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(self._serve(listener))
        if self.service.unfinished:
            log.error("SHUTDOWN_SECONDS were too short: %d accepted requests had no answer", self.service.unfinished)
            return self.exit_code or EXIT_UNFINISHED
        return self.exit_code

    def end(self, code: int) -> None:
        """Stop accepting connections, answer what was accepted, and end with ``code``. Call it in the event loop."""
        self.exit_code = self.exit_code or code
        self._ending.set()
        self.service.drain()
        self.server.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain on the first signal; end at once on a second one."""
        if self.signal:
            os._exit(128 + sig)
        self.signal = sig
        self._ending.set()
        if self._loop is None:
            self.server.should_exit = True
        else:  # no logging in a signal handler: it may have interrupted the code that holds the lock
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        assert self._loop
        log.info("draining", extra={"fields": {"cause": signal.Signals(self.signal).name}})
        self.service.drain()
        # A person at a terminal does not wait for load balancers.
        seconds = 0 if self.signal == signal.SIGINT else self._lame_duck
        self._loop.call_later((1 - LAST_SHARE) * seconds, self._stop_listening)
        self._loop.call_later(seconds, self.end, 0)

    def _stop_listening(self) -> None:
        for server in self.server.servers:
            server.close()

    def _take_signals(self) -> None:
        for sig in EXIT_SIGNALS:
            signal.signal(sig, self.handle_exit)

    async def _serve(self, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(logs.in_loop)
        starting = asyncio.create_task(self._start_service())
        await self.server.serve([listener])
        starting.cancel()

    def _end_soon(self, code: int) -> None:
        asyncio.get_running_loop().call_later(LOST_SECONDS, self.end, code)

    async def _start_service(self) -> None:
        self._take_signals()  # uvicorn has set its own
        try:
            await self.service.start()
        except DeviceError as error:
            device = "" if self.settings.device == "auto" else f"DEVICE={self.settings.device}, but "
            log.critical("refusing to start: %s%s", device, error, extra={"fields": await asyncio.to_thread(gpu_cause)})
            self.end(EXIT_CONFIGURATION)
        except (StartRefused, ContractError) as error:
            log.critical("refusing to start: %s", error)
            self.end(EXIT_CONFIGURATION)
        except Exception as error:
            _failed("the model could not be loaded", error)
            self.end(1)

    def _end_in_time(self) -> None:
        self._ending.wait()
        time.sleep(self.settings.shutdown_seconds - logs.FLUSH_SECONDS)
        logs.flush()
        os._exit(self.exit_code or EXIT_UNFINISHED)


def _failed(what: str, error: BaseException) -> None:
    text = f"{what}: {type(error).__name__}: {words_of(error)}"
    hint = "; add it to pyproject.toml, then scripts/lock and scripts/setup" if "pip install" in text else ""
    log.critical("%s%s", text, hint, exc_info=error, extra={"whole": True})


def main(model: Model, hooks: Hooks) -> None:
    """Run the service around ``model`` until it is told to stop; ends the process."""
    settings = hooks.settings()
    logs.configure(settings)
    for name, setting in sorted(misspelled(os.environ, hooks.settings).items()):
        log.warning("%s is not a setting and changes nothing: did you mean %s?", name, setting)
    for name in REMOVED:
        if os.environ.get(name):
            log.critical("refusing to start: %s: %s", name, REMOVED[name])
            _leave(EXIT_CONFIGURATION)
    # The model's thread must not wait 5 ms for the interpreter each time it has a result.
    sys.setswitchinterval(0.001)
    if hooks.unused:
        log.warning(hooks.unused)
    try:
        process = Process(model, settings, hooks)
    except (StartRefused, ContractError) as error:
        log.critical("refusing to start: %s", error)
        _leave(EXIT_CONFIGURATION)
    except (Exception, SystemExit) as error:
        _failed("service.py cannot be used", error)
        _leave(1)
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", process.service.name)
    for line in process.service.interface.deprecations:
        log.warning("deprecated: %s", line)
    try:
        code = process.run()
    except SystemExit as ended:  # of uvicorn, if the port or the application does not start, or of the owner's code
        phase = "while it served" if process.server.started else "at its start: see the lines before"
        log.critical("the application ended %s", phase, exc_info=ended)
        _leave(1)
    log.info("stopped", extra={"fields": {"exit_code": code}})
    _leave(code)


def _leave(code: int) -> NoReturn:
    logs.flush()
    # Not sys.exit: a call of the model that never ends must not keep the process alive.
    os._exit(code)
