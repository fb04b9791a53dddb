"""The job on a Ray cluster: Ray finds places for workers, which do what those of one machine do, on shared storage.

No row goes through Ray. So parts, records and the result are those of any other run, byte for byte.
"""

import os
import signal
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from . import raymember
from .exits import BAD_CONFIGURATION, BAD_INPUT, DONE, RETRY, SIGNAL, BadConfiguration, JobError, Stopped
from .messages import one_line, say
from .plan import code_fingerprint
from .stop import Stop
from .workers import WORKER, combine

TRIES = 4
CONNECT_SECONDS = 60.0
PAUSE_SECONDS = 5.0
WAITING_SECONDS = 30.0
# Beyond --grace: until the exit codes of those that were stopped have come back.
END_SECONDS = 10.0
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
HINT = (
    'Ray is not installed here: write "gpu-repo-runtime[ray]" among the dependencies in pyproject.toml, '
    "then scripts/lock and scripts/setup"
)


@dataclass(frozen=True)
class Places:
    """How many workers there are and what each asks Ray for."""

    workers: int
    device: str
    cpus: int


@dataclass
class Worker:
    """One worker: its actor, what it is doing, and how often it was lost by a fault of its own."""

    number: int
    actor: Any = None
    doing: Any = None
    stage: str = "place"
    host: str = ""
    node: str = ""
    failed: int = 0


def run_on(
    address: str, package: str, arguments: Sequence[str], output: str, device: str, workers: int | None, grace: float
) -> int:
    """Run the job on the cluster at ray://HOST:PORT, or on the one that this machine is in ("ray").

    Returns the exit code that stands for all. Raises JobError when there is no cluster, or no GPU that was asked for,
    Stopped when a signal comes before there is work.
    """
    # Longer than the crew waits by itself: what ends it then is a cluster that has gone silent.
    with Stop(grace, spare=2 * END_SECONDS) as stop:
        with _waiting_for_ray(stop):
            ray = _connected(address)
        try:
            with _waiting_for_ray(stop):
                places = places_for(ray.nodes(), device, workers)
            what = "one GPU" if places.device == "cuda" else "no GPU"
            say(f"{places.workers} workers on Ray, each with {what} and {places.cpus} CPUs")
            return _Crew(ray, package, arguments, output, places, grace).work()
        except ray.exceptions.RayError as error:
            raise JobError(f"Ray failed: {one_line(error)}; another try goes on") from error
        except ConnectionError as error:
            raise JobError(f"Ray is out of reach: {one_line(error)}; another try goes on") from error
        finally:
            ray.shutdown()


@contextmanager
def _waiting_for_ray(stop: Stop) -> Iterator[None]:
    """Let a signal end the job at once in this block, also when Ray has put a handler of its own in place."""
    try:
        with stop.at_once("a Ray cluster was waited for"):
            yield
    except SystemExit as ended:
        raise Stopped(signal.SIGTERM) from ended


def _connected(address: str) -> Any:
    if address != "ray" and not address.startswith("ray://"):
        raise BadConfiguration(f"--on {address}: write ray://HOST:PORT, or ray for the cluster that this machine is in")
    try:
        import ray
    except ImportError:
        raise BadConfiguration(HINT) from None
    # A class of this package would be looked for on the nodes before their Python knows where it is.
    ray.cloudpickle.register_pickle_by_value(raymember)
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            ray.init("auto" if address == "ray" else address, logging_level="ERROR")
            return ray
        except ConnectionError as error:
            # A cluster that has just been asked for takes a while until it answers.
            if time.monotonic() + PAUSE_SECONDS > deadline:
                raise JobError(f"no Ray cluster answers at {address}: {one_line(error)}") from error
            say(f"no Ray cluster answers at {address} yet")
        except (RuntimeError, ValueError, ImportError) as error:
            raise BadConfiguration(f"the Ray cluster at {address} cannot be used: {one_line(error)}") from error
        ray.shutdown()
        time.sleep(PAUSE_SECONDS)


def places_for(nodes: list[dict[str, Any]], device: str, workers: int | None) -> Places:
    """Return the places to ask for: one for each GPU, without a GPU one for each node. Raises JobError."""
    resources = [node["Resources"] for node in nodes if node["Alive"]]
    gpus = sum(int(one.get("GPU", 0)) for one in resources)
    on_gpus = device == "cuda" or (device == "auto" and gpus > 0)
    if device == "auto" and not gpus:
        say("cpu: no node of the Ray cluster has a GPU")
    if on_gpus and not gpus and not workers:
        raise JobError("no node of the Ray cluster has a GPU; where it grows when asked, say how many: --workers N")
    kind = "GPU" if on_gpus else "CPU"
    able = [one for one in resources if one.get(kind, 0) >= 1 and one.get("CPU", 0) >= 1]
    count = workers or (gpus if on_gpus else len(able)) or 1
    total = sum(int(one["CPU"]) for one in able)
    # What the smallest node can give too: a request that no node can meet waits for ever.
    smallest = min((int(one["CPU"] // (one["GPU"] if on_gpus else 1)) for one in able), default=1)
    return Places(count, "cuda" if on_gpus else "cpu", max(1, min(total // count, smallest)))


class _Crew:
    """The workers, from the first that is asked for to the last that ends."""

    def __init__(
        self, ray: Any, package: str, arguments: Sequence[str], output: str, places: Places, grace: float
    ) -> None:
        self._ray, self._package, self._places, self._grace = ray, package, places, grace
        self._arguments = [*arguments, "--device", places.device]
        self._output = output if "://" in output else os.path.abspath(output)
        self._token = uuid.uuid4().hex
        self._agreed: dict[str, Any] = {"code": code_fingerprint(package)}
        self._is_shared = False
        self._looking = False
        self._signal = 0
        self._deadline = float("inf")
        self._codes: list[int] = []
        self._crew = [Worker(number) for number in range(places.workers)]

    def work(self) -> int:
        """Return the exit code that stands for all."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        for worker in self._crew:
            self._place(worker)
        next_line, stopped = time.monotonic() + WAITING_SECONDS, 0
        while self._crew:
            if self._signal and not stopped:
                stopped = self._stop()
            if time.monotonic() > self._deadline:
                return SIGNAL + stopped if not self._codes else combine([*self._codes, SIGNAL + stopped])
            for worker in self._ready():
                self._go_on(worker)
            waiting = sum(worker.stage == "place" for worker in self._crew)
            if waiting and time.monotonic() > next_line:
                next_line = time.monotonic() + WAITING_SECONDS
                say(f"{waiting} of {self._places.workers} workers wait for a place; `ray status` says what is taken")
        return combine(self._codes)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal == signal.SIGINT == number:
            os._exit(SIGNAL + number)
        self._signal = self._signal or number

    def _stop(self) -> int:
        """Pass the signal on; who has no work yet is let go."""
        self._deadline = time.monotonic() + self._grace + END_SECONDS
        for worker in list(self._crew):
            if worker.stage == "work":
                worker.actor.stop.remote(self._signal)
            else:
                self._ended(worker, SIGNAL + self._signal)
        return self._signal

    def _place(self, worker: Worker) -> None:
        places = self._places
        gpus = 1 if places.device == "cuda" else 0
        threads = {name: str(places.cpus) for name in THREADS}
        # Paths that the options name are those of this start, wherever a node's processes stand.
        folder = {"JOB_FOLDER": os.path.join(os.getcwd(), os.environ.get("JOB_FOLDER", ""))}
        names = os.environ.get("JOB_SETTINGS", "").split()
        settings = {name: os.environ[name] for name in names if name in os.environ}
        environment = threads | settings | folder | {WORKER: f"{worker.number}/{places.workers}"}
        paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        # Two threads: one works, the other one hears of a signal.
        remote = self._ray.remote(raymember.Member).options(
            num_cpus=places.cpus, num_gpus=gpus, max_concurrency=2, scheduling_strategy="SPREAD"
        )
        worker.actor = remote.remote(environment, paths)
        worker.stage, worker.host, worker.node = "place", "", ""
        worker.doing = worker.actor.place.remote()

    def _ready(self) -> list[Worker]:
        doing = {worker.doing: worker for worker in self._crew if worker.doing is not None}
        if not doing:
            time.sleep(0.2)
            return []
        ready, _ = self._ray.wait(list(doing), num_returns=len(doing), timeout=0.5)
        held = [worker for worker in self._crew if worker.stage == "held" and self._is_shared]
        return held + [doing[one] for one in ready]

    def _go_on(self, worker: Worker) -> None:
        """Take what a worker has brought and give it what comes next."""
        try:
            found: Any = None if worker.doing is None else self._ray.get(worker.doing)
        except self._ray.exceptions.RayError as error:
            self._lost(worker, error)
            return
        if worker.stage == "place":
            worker.host, worker.node = found
        if worker.stage in ("place", "held"):
            self._look(worker)
        elif worker.stage == "look":
            self._compare(worker, found[0], found[1])
        else:
            self._judge(worker, found[0], found[1])

    def _look(self, worker: Worker) -> None:
        """Let the node be looked at: the first one alone, since the others look for what it writes."""
        if self._looking and not self._is_shared:
            worker.stage, worker.doing = "held", None
            return
        worker.stage, self._looking = "look", True
        worker.doing = worker.actor.look.remote(self._package, self._output, self._token, not self._is_shared)

    def _compare(self, worker: Worker, found: dict[str, Any], why: str) -> None:
        if not why:
            self._is_shared = True
            other = next((key for key in self._agreed if self._agreed[key] != found[key]), "")
            why = other and f"it has other {other} than {'this checkout' if other == 'code' else 'the first node'}"
            self._agreed |= {} if why else found
        if why:
            say(
                f"{worker.host} cannot work: {why}. All nodes need the same Python, packages, code and weights: start "
                "Ray in the image of this repository (scripts/build)"
            )
            self._ended(worker, BAD_CONFIGURATION)
            return
        worker.stage = "work"
        worker.doing = worker.actor.run.remote(self._package, self._arguments)

    def _judge(self, worker: Worker, code: int, said: str) -> None:
        if code:
            say(f"worker {worker.number} on {worker.host} ended with {code}: {said}")
        if code in (DONE, BAD_CONFIGURATION, BAD_INPUT) or self._signal:
            self._ended(worker, code)
        else:
            # SIGTERM from elsewhere says that the node goes away: no fault of the worker.
            self._again(worker, code, code != SIGNAL + signal.SIGTERM)

    def _lost(self, worker: Worker, error: BaseException) -> None:
        """Begin again somewhere else. Only a node that is still there may have been harmed by the work itself."""
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        say(f"worker {worker.number} on {worker.host or 'no node yet'} is lost: {one_line(error)}")
        if worker.stage == "look" and not self._is_shared:
            self._looking = False
            for other in self._crew:
                if other.stage == "held":
                    other.stage, other.doing = "place", other.actor.place.remote()
        self._again(worker, RETRY, worker.node in alive)

    def _again(self, worker: Worker, code: int, counts: bool) -> None:
        worker.failed += counts
        if worker.failed >= TRIES or self._signal:
            self._ended(worker, code)
            return
        say(f"worker {worker.number} begins again" + (f", try {worker.failed + 1} of {TRIES}" if counts else ""))
        self._ray.kill(worker.actor)
        self._place(worker)

    def _ended(self, worker: Worker, code: int) -> None:
        self._crew.remove(worker)
        self._codes.append(code)
        self._ray.kill(worker.actor)
        if code == BAD_CONFIGURATION and not self._signal:
            # As in an Indexed Job: what no worker can do ends all.
            self._signal = signal.SIGTERM
