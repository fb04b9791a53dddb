"""The life of the model in this process: starting, ready, draining or failed."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any

from starlette.types import Receive, Scope

from .. import device
from ..contract import Model, ran, refuse_async
from ..interface import Interface, WrongAnswer
from ..words import words_of
from . import startup, tracing
from .batcher import Batcher
from .call import Call, Done
from .choice import Choice
from .connection import when_gone
from .engine import Engine, Errand
from .errors import (
    ClientGone,
    DeadlineExceeded,
    InvalidRequest,
    NotReady,
    PredictionFailed,
    ServiceError,
)
from .metrics import Metrics
from .schemas import PredictRequest
from .settings import Settings

log = logging.getLogger(__name__)


def _stay(_: int) -> None: ...


class Service:
    """One model on one device.

    ``reason`` says why the state is not ready, ``weights`` is the digest of the weights that the model was loaded with,
    ``unfinished`` counts accepted requests that were given up at the end, ``on_end`` ends the process with a code.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        self.settings = settings
        self.model = model
        self.state, self.reason, self.device = "starting", "the model is being loaded", "unknown"
        self.weights = ""
        self.unfinished = 0
        self.on_end: Callable[[int], None] = _stay
        self.interface = Interface(model)
        self.request = PredictRequest(settings, self.interface)
        self._defaults = Choice(self.interface.no_parameters)
        self.name = settings.model_name or type(model).__module__.split(".")[0]
        self.tracing = tracing.start(os.environ, self.name)
        self.metrics = Metrics(
            lambda: self.batcher.queue.depth,
            lambda: self.batcher.limit,
            lambda: self.batcher.memory.shortages,
            self._memory,
        )
        self.batcher = Batcher(Engine(self), limit=settings.max_batch_size, max_queue=settings.max_queue)

    async def start(self) -> None:
        """Load and warm the model, in the thread that will run it. Raises what startup.start raises."""
        loop = asyncio.get_running_loop()
        # An error comes as a result: a future takes no StopIteration, and lets SystemExit end the event loop.
        started: asyncio.Future[startup.Started | BaseException] = loop.create_future()

        def prepare() -> bool:
            try:
                result = startup.start(self.interface, self.settings)
            except BaseException as error:
                loop.call_soon_threadsafe(started.set_result, error)
                return False
            self.batcher.limit = result.plan.batch
            loop.call_soon_threadsafe(started.set_result, result)
            return True

        self.batcher.start(prepare)
        result = await started
        if isinstance(result, BaseException):
            self.state, self.reason = "failed", words_of(result)
            if isinstance(result, Exception):
                raise result
            raise RuntimeError(f"the model raised {type(result).__name__}") from result
        self.device = result.device
        about = [result.about.get(key, "") for key in ("device", "name", "driver", "cuda")]
        self.metrics.info.labels(self.settings.app_version, self.settings.app_image, *about).set(1)
        self.metrics.load_seconds.set(result.seconds)
        if result.weights:
            self.weights = result.weights.digest
            self.metrics.loaded(result.weights)
        if self.state == "starting":
            self.enter("ready", "")
        log.info(self.state, extra={"fields": {"seconds": round(result.seconds, 3), "max_batch": result.plan.batch}})

    def drain(self) -> None:
        """Turn readiness red; what was accepted goes on to its end, and no answer is held back any more."""
        self.batcher.held.close()
        if self.state in ("starting", "ready"):
            self.enter("draining", "the service is stopping")

    def stop(self) -> None:
        """Accept nothing more and let the model's thread end."""
        self.drain()
        self.batcher.stop()

    @property
    def sick(self) -> str | None:
        """Why the process should be replaced, or None; this is what liveness means."""
        if self.state == "failed":
            return self.reason
        since = self.batcher.busy_since
        if since is not None and (seconds := time.perf_counter() - since) > self.settings.stuck_seconds:
            return f"a call of the model has run for {seconds:.0f} s (STUCK_SECONDS={self.settings.stuck_seconds:g})"
        return None

    async def predict(self, inputs: Sequence[Any], parameters: Any = None) -> list[Any]:
        """Return one output for each input: for an owner's own endpoints, in batches with all other requests.

        ``inputs`` are of the model's ``Input``, ``parameters`` of its ``Parameters``. Raises ServiceError, or TypeError
        for inputs and parameters that are not.
        """
        held = self.interface.held(inputs), self.interface.held_parameters(parameters)
        if len(inputs) > self.settings.max_queue:
            raise InvalidRequest(f"{len(inputs)} inputs at once never fit: MAX_QUEUE is {self.settings.max_queue}")
        return self.outputs(await self.call(*held))

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the owner in the model's thread, between two batches, and return what it returns.

        Raises what it raises, or ServiceError where it does not come to its turn.
        """
        refuse_async(function, "the function given to service.run")
        outcome: list[Any] = []

        def errand() -> None:
            try:
                outcome.extend((ran(function(*arguments), "the function given to service.run"), None))
            except Exception as error:
                if device.is_device_lost(error):
                    raise
                outcome.extend((None, error))

        await self._wait(self._submit([None], group=Errand(errand)), None)
        result, error = outcome
        if error is not None:
            raise error
        return result

    async def call(
        self, inputs: Sequence[Any], parameters: Any = None, receive: Receive | None = None, client: Hashable = None
    ) -> Call:
        """Answer the inputs; they are dropped when ``receive`` says that the client has gone. Raises ServiceError."""
        call = await self._wait(self.submit(inputs, parameters, client), receive)
        if self.tracing:
            self.tracing.answered(call)
        return call

    def submit(
        self, inputs: Sequence[Any], parameters: Any = None, client: Hashable = None, done: Done | None = None
    ) -> Call:
        """Queue the inputs; ``done``, or else a future in the call, is told how they end. Raises ServiceError."""
        group = None
        if parameters is not None and (choice := Choice(parameters)) != self._defaults:
            group = choice
        return self._submit(inputs, self._sizes(inputs), group, client, done)

    def outputs(self, call: Call) -> list[Any]:
        """Return the outputs of a call that is done, held to the model's ``Output``. Raises PredictionFailed."""
        try:
            return self.interface.checked(call.answers)
        except WrongAnswer as error:
            raise self._wrong(error) from None

    def json(self, call: Call) -> bytes:
        """Return the outputs of a call that is done as JSON. Raises PredictionFailed."""
        try:
            return self.interface.json(self.interface.checked(call.answers))
        except WrongAnswer as error:
            raise self._wrong(error) from None

    def plain(self, call: Call, *, by_alias: bool) -> list[Any]:
        """Return the outputs of a call that is done as Interface.plain has them. Raises PredictionFailed."""
        try:
            return self.interface.plain(self.interface.checked(call.answers), by_alias=by_alias)
        except WrongAnswer as error:
            raise self._wrong(error) from None

    @staticmethod
    def _wrong(error: WrongAnswer) -> PredictionFailed:
        log.error("the model gave a wrong answer: %s", error)
        reason = [{"field": f"instances.{error.index}", "reason": str(error)}]
        return PredictionFailed(f"instances.{error.index}: {error}", errors=reason)

    def _sizes(self, inputs: Sequence[Any]) -> list[int] | None:
        size = self.interface.size
        if size is None:
            return None
        sizes: list[int] = []
        try:
            for one in inputs:
                sizes.append(int(size(one)))
        except BaseException as error:
            log.error("Model.size failed on an input", exc_info=error)
            name = f"Model.size raised {type(error).__name__}"
            reason = [{"field": f"instances.{len(sizes)}", "reason": name}]
            raise PredictionFailed(f"{name} for instances.{len(sizes)}", errors=reason) from None
        return sizes

    def _submit(
        self,
        inputs: Sequence[Any],
        sizes: Sequence[int] | None = None,
        group: Hashable = None,
        client: Hashable = None,
        done: Done | None = None,
    ) -> Call:
        if self.state == "starting":
            raise NotReady(self.reason, retry_after=1)
        return self.batcher.submit(inputs, sizes=sizes, group=group, client=client, done=done)

    async def _wait(self, call: Call, receive: Receive | None) -> Call:
        watcher = self._watch(call, receive) if receive else None
        seconds = self.settings.request_seconds
        late = DeadlineExceeded(f"no answer within {seconds:g} s")
        deadline = asyncio.get_running_loop().call_later(seconds, self.batcher.drop, call, late)
        try:
            await call.done
        except ServiceError as failed:
            # The call may stay in the model for long; an error that knows the frames of this request would hold them.
            failed.__traceback__ = None
            raise copy(failed) from None
        except asyncio.CancelledError:  # the time to stop is over, or a limit of an owner's route
            self.batcher.drop(call, ClientGone("the answer is not waited for any more"))
            raise
        finally:
            deadline.cancel()
            if watcher:
                watcher.cancel()
            elif receive:
                when_gone(receive, None)
        return call

    def client_of(self, scope: Scope) -> Hashable:
        """Whose turn a request counts for: the value of CLIENT_HEADER, else the connection."""
        name = self.settings.client_header.lower().encode()
        if name:
            for header, value in scope["headers"]:
                if header == name:
                    return bytes(value)
        address = scope.get("client")
        return tuple(address) if address else None

    def _watch(self, call: Call, receive: Receive) -> asyncio.Task[None] | None:
        """Drop the call when its client goes; the task that has to ask for that, where one is needed."""

        def drop() -> None:
            self.batcher.drop(call, ClientGone("the client hung up"))

        async def ask() -> None:
            # Once: a middleware that has read the body may give it again and again, and never wait.
            if (await receive())["type"] == "http.disconnect":
                drop()

        return None if when_gone(receive, drop) else asyncio.create_task(ask())

    def enter(self, state: str, reason: str) -> None:
        """Change the state, and the metric that shows it."""
        self.state, self.reason = state, reason
        self.metrics.ready.set(state == "ready")

    def _memory(self) -> object | None:
        return device.memory(self.device) if self.state in ("ready", "draining") else None
