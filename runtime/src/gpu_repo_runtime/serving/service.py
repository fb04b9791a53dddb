"""The life of the model in this process, and how a request waits for its answer."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.types import Receive

from .. import device
from ..contract import Model, refuse_async
from ..interface import Interface, WrongAnswer
from . import startup
from .batch_planning import Call
from .batcher import Batcher
from .errors import EXIT_DEVICE_LOST, ServiceError, invalid_input
from .metrics import Metrics
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
    with, ``unfinished`` counts accepted requests without an answer, ``reading`` has the tasks that read a body and when
    they have to be done, ``on_end`` ends the process with a code.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        self.settings, self.model = settings, model
        self.state, self.reason, self.device = "starting", "the model is being loaded", "unknown"
        self.weights, self.unfinished, self.body_limit = "", 0, settings.body_limit
        self.reading: dict[asyncio.Task[Any], float] = {}
        self.on_end: Callable[[int], None] = lambda _: None
        self.interface = Interface(model)
        self.request = PredictRequest(settings, self.interface)
        self.name = settings.model_name or type(model).__module__.split(".")[0]
        self.metrics = Metrics(lambda: device.memory(self.device) if self.state in ("ready", "draining") else None)
        self.batcher = Batcher(
            self.metrics,
            lambda: device.release(self.device),
            self._device_lost,
            limit=settings.batch_limit(self.interface.table),
            max_queue=settings.max_queue,
        )
        self.metrics.ready.set_function(lambda: self.state == "ready")
        self.metrics.queue_depth.set_function(lambda: self.batcher.waiting)
        self.metrics.batch_limit.set_function(lambda: self.batcher.limit.now)
        self._defaults = self._group(self.interface.no_parameters)
        self._ticking = False

    async def start(self) -> None:
        """Load and warm the model, in the thread that will run it. Raises what startup.start raises."""

        def report(phase: str) -> None:
            if self.state == "starting":
                self.reason = phase

        try:
            result = await self.batcher.start(lambda: startup.start(self.interface, self.settings, report))
        except (Exception, SystemExit) as error:
            self.state, self.reason = "failed", str(error)
            self.batcher.stop()
            raise
        self.device, self.batcher.limit.most = result.about["device"], result.batch
        about = {"version": self.settings.app_version, "image": self.settings.app_image, **result.about}
        self.metrics.info.labels(**about).set(1)
        self.metrics.load_seconds.set(result.seconds)
        if result.weights:
            self.weights = result.weights.digest
            for one in result.weights.weights:
                self.metrics.weights.labels(one.name, one.revision, one.digest).set(1)
        if self.state == "starting":
            self.state, self.reason = "ready", ""
        log.info(self.state, extra={"fields": {"seconds": round(result.seconds, 3), "max_batch": result.batch}})

    def drain(self) -> None:
        """Make /readyz fail; accepted requests are answered."""
        if self.state in ("starting", "ready"):
            self.state, self.reason = "draining", "the service is stopping"

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
            words = f"{len(inputs)} inputs never fit: MAX_QUEUE is {self.settings.max_queue}"
            raise ServiceError(words, "invalid_request")
        return self.outputs(await self.call(*checked), list) if checked[0] else []

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the owner in the model's thread, between two batches, and return what it returns.

        Raises what it raises, or ServiceError if it is not called.
        """
        refuse_async(function, "the function given to service.run")

        def call(_: list[Any]) -> list[Any]:
            try:
                return [(function(*arguments), None)]
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
        sizes = [int(self.interface.size(one)) for one in inputs] if self.interface.size else None
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
            raise invalid_input(error.index, str(error), "prediction_failed") from None

    def _group(self, parameters: Any) -> tuple[str, Any]:
        # Only requests of the same parameters share a batch. 1, 1.0 and True compare equal; their keys do not.
        return self.interface.parameters_key(parameters), parameters

    def _submit(self, inputs: Sequence[Any], predict: Callable[[list[Any]], Sequence[Any]], **about: Any) -> Call:
        if self.state == "starting":
            raise ServiceError(self.reason, "not_ready", retry_after=1)
        return self.batcher.submit(inputs, predict, **about)

    async def _answers(self, call: Call) -> list[Any]:
        """Wait for a call; it is dropped if its client has gone. Raises ServiceError."""
        self.tick()
        try:
            answers: list[Any] = await call.done
            return answers
        except asyncio.CancelledError:  # the time to stop is over, or a timeout in an owner's route
            self.batcher.drop(call, ServiceError("the answer is not awaited any more", "client_gone"))
            raise
        finally:
            watcher, call.receive, call.watcher = call.watcher, None, None  # its traceback has the call
            if watcher:
                watcher.cancel()

    def tick(self) -> None:
        """Look at all that waits from now on, until nothing does."""
        if not self._ticking:
            self._ticking = True
            loop, shortest = asyncio.get_running_loop(), min(self.settings.request_seconds, self.settings.body_seconds)
            loop.call_later(min(TICK_SECONDS, shortest), self._look)

    def _look(self) -> None:
        """Give up the calls and bodies that take too long, and watch the clients of calls that wait."""
        self._ticking = False
        if self.batcher.calls or self.reading:
            self.tick()
        now, longest = time.perf_counter(), self.settings.request_seconds
        for task, ends in self.reading.items():
            if now >= ends:
                task.cancel()
        for call in list(self.batcher.calls):
            seconds = now - call.queued_at
            if seconds < min(TICK_SECONDS, longest):
                break
            if seconds > longest:
                self.batcher.drop(call, ServiceError(f"no answer within {longest:g} s", "deadline_exceeded"))
            elif call.receive and not call.watcher and (not call.started_at or seconds > WATCH_IN_MODEL_SECONDS):
                call.watcher = asyncio.create_task(self._watch(call, call.receive))

    async def _watch(self, call: Call, receive: Receive) -> None:
        # Once: a middleware that has read the body may return it again and again without waiting.
        if (await receive())["type"] == "http.disconnect":
            self.batcher.drop(call, ServiceError("the client closed the connection", "client_gone"))

    def _device_lost(self, why: str) -> None:
        log.critical("the device is lost; this process ends", extra={"fields": {"error": why}})
        self.state, self.reason = "failed", f"device lost: {why}"
        self.on_end(EXIT_DEVICE_LOST)
