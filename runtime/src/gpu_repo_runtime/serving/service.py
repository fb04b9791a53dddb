"""The life of the model in this process: starting, ready, draining or failed."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from starlette.types import Receive

from .. import device
from ..contract import Model, ran, refuse_async
from ..interface import Interface, WrongAnswer
from ..words import words_of
from . import startup, tracing
from .batcher import Batcher
from .call import Call
from .errors import (
    EXIT_DEVICE_LOST,
    DeviceLost,
    InvalidRequest,
    NotReady,
    PredictionFailed,
)
from .metrics import Metrics
from .model_calls import Choice, ModelCalls, OwnerCall
from .schemas import PredictRequest
from .settings import Settings
from .waiting import Waiting

T = TypeVar("T")
log = logging.getLogger(__name__)


class Service:
    """One model on one device.

    ``reason`` shows why the state is not ready, ``weights`` is the digest of the weights that the model was loaded
    with, ``unfinished`` counts accepted requests without an answer, ``on_end`` ends the process with a code.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        self.settings = settings
        self.model = model
        self.state, self.reason, self.device = "starting", "the model is being loaded", "unknown"
        self.weights = ""
        self.unfinished = 0
        self.on_end: Callable[[int], None] = lambda _: None
        self.interface = Interface(model)
        self.request = PredictRequest(settings, self.interface)
        self._defaults = self._choice(self.interface.no_parameters)
        self.name = settings.model_name or type(model).__module__.split(".")[0]
        self.metrics = Metrics(
            lambda: self.batcher.queue.depth,
            lambda: self.batcher.limit,
            lambda: self.batcher.memory.shortages,
            self._memory,
        )
        calls = ModelCalls(self.interface, self.metrics, lambda: self.device, self._device_lost)
        self.batcher = Batcher(calls, limit=settings.max_batch_size, max_queue=settings.max_queue)
        self._waiting = Waiting(self.batcher.drop, settings.request_seconds)

    async def start(self) -> None:
        """Load and warm the model, in the thread that will run it. Raises what startup.start raises."""
        loop = asyncio.get_running_loop()
        # An error comes as a result: a future takes no StopIteration, and lets SystemExit end the event loop.
        started: asyncio.Future[startup.Started | BaseException] = loop.create_future()

        def report(phase: str) -> None:
            loop.call_soon_threadsafe(self._set_reason, phase)

        def prepare() -> bool:
            try:
                result = startup.start(self.interface, self.settings, report)
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
            raise InvalidRequest(
                f"{len(inputs)} inputs never fit into the queue: MAX_QUEUE is {self.settings.max_queue}"
            )
        return self.outputs(await self.call(*checked))

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the owner in the model's thread, between two batches, and return what it returns.

        Raises what it raises, or ServiceError if it is not called.
        """
        refuse_async(function, "the function given to service.run")
        outcome: list[Any] = []

        def call() -> None:
            try:
                outcome.extend((ran(function(*arguments), "the function given to service.run"), None))
            except Exception as error:
                if device.is_device_lost(error):
                    raise
                outcome.extend((None, error))

        await self._waiting.until_done(self._submit([None], group=OwnerCall(call)))
        result, error = outcome
        if error is not None:
            raise error
        return result

    async def call(
        self, inputs: Sequence[Any], parameters: Any = None, receive: Receive | None = None, client: Hashable = None
    ) -> Call:
        """Answer the inputs; they are dropped if ``receive`` reports that the client has gone. Raises ServiceError."""
        choice = None if parameters is None else self._choice(parameters)
        group = None if choice == self._defaults else choice
        call = self._submit(inputs, self._sizes(inputs), group, client)
        await self._waiting.until_done(call, receive)
        tracing.answered(call)
        return call

    def outputs(self, call: Call) -> list[Any]:
        """Return the outputs of a call that is done, checked against ``Output``. Raises PredictionFailed."""
        return self._checked(lambda outputs: outputs, call)

    def json(self, call: Call) -> bytes:
        """Return the outputs of a call that is done as JSON. Raises PredictionFailed."""
        return self._checked(self.interface.json, call)

    def plain(self, call: Call, *, by_alias: bool) -> list[Any]:
        """Return the outputs of a call that is done as Interface.plain has them. Raises PredictionFailed."""
        return self._checked(lambda outputs: self.interface.plain(outputs, by_alias=by_alias), call)

    def _checked(self, written: Callable[[list[Any]], T], call: Call) -> T:
        try:
            return written(self.interface.checked(call.answers))
        except WrongAnswer as error:
            log.error("the model gave a wrong answer: %s", error)
            reason = [{"field": f"instances.{error.index}", "reason": str(error)}]
            raise PredictionFailed(f"instances.{error.index}: {error}", errors=reason) from None

    def _choice(self, parameters: Any) -> Choice:
        return Choice(self.interface.parameters_key(parameters), parameters)

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
        self, inputs: Sequence[Any], sizes: Sequence[int] | None = None, group: Hashable = None, client: Hashable = None
    ) -> Call:
        if self.state == "starting":
            raise NotReady(self.reason, retry_after=1)
        return self.batcher.submit(inputs, sizes=sizes, group=group, client=client)

    def _device_lost(self, error: DeviceLost) -> None:
        log.critical("the device is lost; this process ends", extra={"fields": {"error": error.detail}})
        self.set_state("failed", f"device lost: {error.detail}")
        self.on_end(EXIT_DEVICE_LOST)

    def set_state(self, state: str, reason: str) -> None:
        """Change the state, and the metric that shows it."""
        self.state, self.reason = state, reason
        self.metrics.ready.set(state == "ready")

    def _set_reason(self, phase: str) -> None:
        if self.state == "starting":
            self.reason = phase

    def _memory(self) -> object | None:
        return device.memory(self.device) if self.state in ("ready", "draining") else None
