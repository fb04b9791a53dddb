"""The job on a Ray cluster: Ray finds places for workers, which do what those of one machine do, on shared storage.

No row goes through Ray. So parts, records and the result are the same as those of any other run, byte for byte.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .exits import BAD_CONFIGURATION, BAD_INPUT, DONE, SIGNAL, BadConfiguration, JobError, Stopped
from .messages import one_line, say
from .stop import Stop
from .workers import LEFT_TO_OTHERS, WORKER, combine

# For each place, so that idle places take the next one.
WORKERS_PER_PLACE = 4
RETRIES = 3
LOOK_SECONDS = 1.0
GIVE_UP = (BAD_CONFIGURATION, BAD_INPUT)
# What tells a process that it is one of several, which another scheduler may have set on the node.
OTHERS = ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
HINT = 'Ray is not installed here: add "gpu-repo-runtime[ray]" to the dependencies, then scripts/lock and scripts/setup'


def run_on(address: str, package: str, arguments: Sequence[str], device: str, workers: int | None, grace: float) -> int:
    """Run the job on the cluster at ray://HOST:PORT, or on this machine's ("ray"), and return its exit code.

    Raises JobError when there is no cluster, or no GPU that was requested, Stopped when a signal comes.
    """
    with Stop(grace) as stop:
        with stop.at_once("the job waited for a Ray cluster"):
            ray = _connected(address)
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        # Ray has put its own handlers in place.
        stop.again()
        try:
            places, on_gpus = places_for(nodes, device, workers)
            say(f"{places} workers at a time on Ray, each with {'one GPU' if on_gpus else 'no GPU'}")
            arguments = [*arguments, "--device", "cuda" if on_gpus else "cpu"]
            cpus = _cpus(nodes, places, on_gpus)
            own = _environment(cpus)
            task = ray.remote(
                num_cpus=cpus, num_gpus=int(on_gpus), max_retries=RETRIES, retry_exceptions=[ChildProcessError]
            )(_worker)
            count = places * WORKERS_PER_PLACE
            tasks = [task.remote(package, arguments, own | {WORKER: f"{n}/{count}"}, grace) for n in range(count)]
            ends = _ends(ray, tasks, stop)
            if all(code == DONE and line.endswith(LEFT_TO_OTHERS) for code, line in ends):
                # The folder of a network disk may be listed late, so that each worker left the end to another.
                first = task.remote(package, arguments, own | {WORKER: f"0/{count}"}, grace)
                ends = _ends(ray, [first], stop)
            return combine([code for code, _ in ends])
        except ray.exceptions.RayError as error:
            raise JobError(f"Ray failed: {one_line(error)}; start the same command again") from error
        finally:
            ray.shutdown()


def _connected(address: str) -> Any:
    if address != "ray" and not address.startswith("ray://"):
        raise BadConfiguration(f"--ray-address {address}: write ray://HOST:PORT, or ray for this machine's cluster")
    try:
        import ray
    except ImportError:
        raise BadConfiguration(HINT) from None
    # The nodes need not find this package before a worker's own Python starts.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    for tries_left in range(RETRIES)[::-1]:
        try:
            ray.init("auto" if address == "ray" else address, logging_level="ERROR")
            break
        except ConnectionError as error:
            # Ray's server for clients forks while it has threads, and now and then its child dies at once.
            if not (isinstance(error, ConnectionAbortedError) and tries_left):
                raise JobError(f"no Ray cluster answers at {address}: {one_line(error)}") from error
        except (RuntimeError, ValueError) as error:
            raise BadConfiguration(f"the Ray cluster at {address} cannot be used: {one_line(error)}") from error
    return ray


def places_for(nodes: Sequence[dict[str, Any]], device: str, workers: int | None) -> tuple[int, bool]:
    """Return how many workers run at a time, and whether on GPUs: one for each GPU, or for each node without any.

    nodes: the resources of each. Raises JobError.
    """
    gpus = sum(int(one.get("GPU", 0)) for one in nodes)
    on_gpus = device == "cuda" or (device == "auto" and gpus > 0)
    if device == "auto" and not gpus:
        say("cpu: no node of the Ray cluster has a GPU")
    if on_gpus and not gpus and not workers:
        raise JobError("no node of the Ray cluster has a GPU; if the cluster scales up, set their number: --workers N")
    return workers or (gpus if on_gpus else sum(one.get("CPU", 0) >= 1 for one in nodes)) or 1, on_gpus


def _cpus(nodes: Sequence[dict[str, Any]], places: int, on_gpus: bool) -> int:
    """Return the CPUs of a worker that the smallest node has too: Ray would wait forever for more."""
    able = [one for one in nodes if one.get("CPU", 0) >= 1 and (not on_gpus or one.get("GPU", 0) >= 1)]
    each = [int(one["CPU"] // (one["GPU"] if on_gpus else 1)) for one in able]
    total = sum(int(one["CPU"]) for one in able)
    return max(1, min([total // places, *each]))


def _environment(cpus: int) -> dict[str, str]:
    """Return the settings of .env for the nodes, and the folder that relative paths of the options are in."""
    names = os.environ.get("JOB_SETTINGS", "").split()
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {
        **{name: os.environ[name] for name in names if name in os.environ},
        **{name: str(cpus) for name in THREADS},
        "JOB_FOLDER": os.path.join(os.getcwd(), os.environ.get("JOB_FOLDER", "")),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _ends(ray: Any, tasks: list[Any], stop: Stop) -> list[tuple[int, str]]:
    """Return exit code and last line of each worker. A signal, or one that gives up the job, stops the others."""
    waiting, ends, is_cancelled = list(tasks), [], False
    while waiting:
        ready, waiting = ray.wait(waiting, timeout=LOOK_SECONDS)
        for one in ready:
            try:
                code, line = ray.get(one)
            except ray.exceptions.TaskCancelledError:
                code, line = SIGNAL + signal.SIGTERM, ""
            except (ray.exceptions.RayTaskError, ray.exceptions.WorkerCrashedError) as error:
                code, line = JobError.code, one_line(error)
            ends.append((code, line))
            if code != DONE and line:
                say(f"a worker ended with {code}: {line}")
        if not is_cancelled and (stop.signal or any(code == BAD_CONFIGURATION for code, _ in ends)):
            # Once: a second time would interrupt the workers that are finishing their parts.
            is_cancelled = True
            for one in waiting:
                ray.cancel(one)
    if stop.signal:
        raise Stopped(stop.signal)
    return ends


def _worker(package: str, arguments: Sequence[str], own: Mapping[str, str], grace: float) -> tuple[int, str]:
    """Run a worker's process on a node; return its exit code and the last line that the job printed.

    Runs there alone, with the node's own packages. own: added to the node's environment; folders of its PYTHONPATH
    come first where the node has them. Raises ChildProcessError when another try may help.
    """
    import subprocess

    others = {name: value for name, value in os.environ.items() if name not in OTHERS}
    paths = [*filter(os.path.isdir, own["PYTHONPATH"].split(os.pathsep)), others.get("PYTHONPATH", "")]
    environment = others | {**own, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "JOB_PARENT": str(os.getpid())}
    command = [sys.executable, "-m", "gpu_repo_runtime.batch", package, *arguments]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = process.communicate()
    except BaseException:  # ray.cancel raises KeyboardInterrupt here
        process.terminate()
        process.wait(grace)
        raise
    sys.stderr.write(errors)
    lines = [line for line in errors.splitlines() if line.startswith("job: ")] or errors.splitlines() or [""]
    last = lines[-1].removeprefix("job: ")
    if process.returncode not in (DONE, *GIVE_UP):
        raise ChildProcessError(f"exit code {process.returncode}: {last}")
    return process.returncode, last
