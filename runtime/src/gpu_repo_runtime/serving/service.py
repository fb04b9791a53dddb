"""The life of the model in this process, and how a request waits for its answer."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import partial
from typing import Any, TypeVar

from starlette.types import Receive

from .. import device
from ..contract import Model, ran, refuse_async
from ..interface import Interface, WrongAnswer
from ..words import words_of
from . import startup
from .batch_queue import Call
from .batcher import Batcher, BatchEvents
from .errors import EXIT_DEVICE_LOST, ClientGone, DeviceLost, InvalidRequest, ServiceError
from .metrics import Metrics
from .model_errors import classify
from .schemas import PredictRequest
from .settings import Settings

T = TypeVar("T")
log = logging.getLogger(__name__)
# One timer looks at all that wait: a timer, and a task that watches the connection, for each would cost as much as the
# rest of a request.
TICK_SECONDS = 0.005
# A call with inputs in the queue is watched after a tick, since the model need not compute them if the client has gone.
WATCH_IN_MODEL_SECONDS = 0.1


class Service:
    """One model on one device.

    ``reason`` shows why the state is not ready, ``weights`` is the digest of the weights that the model was loaded
    with, ``unfinished`` counts accepted requests without an answer, ``on_end`` ends the process with a code.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        self.settings, self.model = settings, model
        self.state, self.reason, self.device = "starting", "the model is being loaded", "unknown"
        self.weights, self.unfinished = "", 0
        self.on_end: Callable[[int], None] = lambda _: None
        self.interface = Interface(model)
        self.request = PredictRequest(settings, self.interface)
        self.name = settings.model_name or type(model).__module__.split(".")[0]
        self.metrics = Metrics(
            lambda: self.batcher, lambda: device.memory(self.device) if self.state in ("ready", "draining") else None
        )
        events = BatchEvents(classify, lambda: device.release(self.device), self.metrics.batch_done, self._device_lost)
        self.batcher = Batcher(events, limit=settings.batch_limit(self.interface.table), max_queue=settings.max_queue)
        self._defaults = self._group(self.interface.no_parameters)
        self._ticking = False

    async def start(self) -> None:
        """Load and warm the model, in the thread that will run it. Raises what startup.start raises."""
        loop = asyncio.get_running_loop()
        # An error comes as a result: a future takes no StopIteration, and lets SystemExit end the event loop.
        started: asyncio.Future[startup.Started | BaseException] = loop.create_future()

        def report(phase: str) -> None:
            if self.state == "starting":
                self.reason = phase

        def prepare() -> bool:
            try:
                result = startup.start(self.interface, self.settings, report)
            except BaseException as error:
                loop.call_soon_threadsafe(started.set_result, error)
                return False
            self.batcher.memory.most = result.plan.batch
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
            self.set_state("ready", "")
        log.info(self.state, extra={"fields": {"seconds": round(result.seconds, 3), "max_batch": result.plan.batch}})

    def drain(self) -> None:
        """Make /readyz fail; accepted requests are answered."""
        if self.state in ("starting", "ready"):
            self.set_state("draining", "the service is stopping")

    def stop(self) -> None:
        """Accept nothing more and let the model's thread end."""
        self.drain()
        self.batcher.stop()

    @property
    def sick(self) -> str | None:
        """Why the process should be replaced, or None: this decides /livez."""
        if self.state == "failed":
            return self.reason
        since = self.batcher.busy_since
        if since is not None and (seconds := time.perf_counter() - since) > self.settings.stuck_seconds:
            return f"a call of the model has run for {seconds:.0f} s (STUCK_SECONDS={self.settings.stuck_seconds:g})"
        return None

    async def predict(self, inputs: Sequence[Any], parameters: Any = None) -> list[Any]:
        """Return one output for each input: for an owner's own routes, in batches with all other requests.

        ``inputs`` are of the model's ``Input``, ``parameters`` of its ``Parameters``. Raises ServiceError, and
        TypeError for inputs and parameters of other types.
        """
        checked = self.interface.held(inputs), self.interface.held_parameters(parameters)
        if len(inputs) > self.settings.max_queue:
            raise InvalidRequest(f"{len(inputs)} inputs never fit: MAX_QUEUE is {self.settings.max_queue}")
        return self.outputs(await self.call(*checked), list)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the owner in the model's thread, between two batches, and return what it returns.

        Raises what it raises, or ServiceError if it is not called.
        """
        refuse_async(function, "the function given to service.run")

        def call(_: list[Any]) -> list[Any]:
            try:
                return [(ran(function(*arguments), "the function given to service.run"), None)]
            except Exception as error:
                if device.is_device_lost(error):
                    raise
                return [(None, error)]

        [(result, error)] = await self._answers(self._submit([None], call, group=object()))
        if error is not None:
            raise error
        return result

    async def call(
        self, inputs: Sequence[Any], parameters: Any = None, receive: Receive | None = None, client: Hashable = None
    ) -> Call:
        """Answer the inputs; they are dropped if ``receive`` reports that the client has gone. Raises ServiceError."""
        predict, group = self.interface.call, self._defaults
        if parameters is not None:
            predict, group = partial(predict, parameters=parameters), self._group(parameters)
        sizes = self._sizes(inputs) if self.interface.size else None
        call = self._submit(inputs, predict, sizes=sizes, group=group, client=client)
        call.receive = receive
        await self._answers(call)
        return call

    def outputs(self, call: Call, write: Callable[[list[Any]], T]) -> T:
        """Return the outputs of a call that is done, checked against ``Output``, as ``write`` writes them.

        Raises ServiceError.
        """
        try:
            return write(self.interface.checked(call.answers))
        except WrongAnswer as error:
            log.error("the model gave a wrong answer: %s", error)
            raise ServiceError.at(error.index, str(error), "prediction_failed") from None

    def set_state(self, state: str, reason: str) -> None:
        """Change the state, and the metric that shows it."""
        self.state, self.reason = state, reason
        self.metrics.ready.set(state == "ready")

    def _group(self, parameters: Any) -> tuple[str, Any]:
        # Only requests of the same parameters share a batch. 1, 1.0 and True compare equal; their keys do not.
        return self.interface.parameters_key(parameters), parameters

    def _sizes(self, inputs: Sequence[Any]) -> list[int]:
        sizes: list[int] = []
        try:
            for one in inputs:
                sizes.append(int(self.interface.size(one)))  # type: ignore[misc]
        except BaseException as error:
            log.error("Model.size failed on an input", exc_info=error)
            reason = f"Model.size raised {type(error).__name__}"
            raise ServiceError.at(len(sizes), reason, "prediction_failed") from None
        return sizes

    def _submit(self, inputs: Sequence[Any], predict: Callable[[list[Any]], Sequence[Any]], **about: Any) -> Call:
        if self.state == "starting":
            raise ServiceError(self.reason, "not_ready", retry_after=1)
        return self.batcher.submit(inputs, predict, **about)

    async def _answers(self, call: Call) -> list[Any]:
        """Wait for a call; it is dropped if its client has gone. Raises ServiceError."""
        if not self._ticking:
            self._ticking = True
            self._tick_later()
        try:
            answers: list[Any] = await call.done
            return answers
        except ServiceError as failed:
            # The call may stay in the model for long; an error that has the frames of this request would hold them.
            failed.__traceback__ = None
            raise copy(failed) from None
        except asyncio.CancelledError:  # the time to stop is over, or a timeout in an owner's route
            self.batcher.drop(call, ClientGone("the answer is not awaited any more"))
            raise
        finally:
            watcher, call.receive, call.watcher = call.watcher, None, None  # its traceback has the call
            if watcher:
                watcher.cancel()

    def _tick_later(self) -> None:
        asyncio.get_running_loop().call_later(min(TICK_SECONDS, self.settings.request_seconds), self._tick)

    def _tick(self) -> None:
        """Give up the calls that take too long, and watch the clients of those that wait."""
        self._ticking = bool(self.batcher.calls)
        if self._ticking:
            self._tick_later()
        now, longest = time.perf_counter(), self.settings.request_seconds
        for call in list(self.batcher.calls):
            seconds = now - call.queued_at
            if seconds < min(TICK_SECONDS, longest):
                break
            if seconds > longest:
                self.batcher.drop(call, ServiceError(f"no answer within {longest:g} s", "deadline_exceeded"))
            elif not call.watcher and (call.waiting or seconds > WATCH_IN_MODEL_SECONDS) and call.receive:
                call.watcher = asyncio.create_task(self._watch(call, call.receive))

    async def _watch(self, call: Call, receive: Receive) -> None:
        # Once: a middleware that has read the body may return it again and again without waiting.
        if (await receive())["type"] == "http.disconnect":
            self.batcher.drop(call, ClientGone("the client closed the connection"))

    def _device_lost(self, error: DeviceLost) -> None:
        log.critical("the device is lost; this process ends", extra={"fields": {"error": error.detail}})
        self.set_state("failed", f"device lost: {error.detail}")
        self.on_end(EXIT_DEVICE_LOST)
