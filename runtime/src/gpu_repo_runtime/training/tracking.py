"""The course of a training in MLflow: where MLFLOW_TRACKING_URI names a server; without it nothing is imported."""

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..batch.exits import BadConfiguration, JobError, Stopped
from ..batch.messages import one_line, say
from .history import Epoch

ADDRESS = "MLFLOW_TRACKING_URI"
EXPERIMENT = "MLFLOW_EXPERIMENT_NAME"
RUN = "mlflow_run.txt"
SHOWN = ("metrics.csv", "loss.png", "result.json")
# MLflow tries 7 times, each after twice the time, for minutes; a training does not wait so long for its notes.
TRIES = ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
# Of a training that ended well, was stopped, or failed; in MLflow's words.
FINISHED, KILLED, FAILED = "FINISHED", "KILLED", "FAILED"


class Tracking:
    """One run of MLflow. A server that fails later is said once and then left alone: a training outlives it."""

    def __init__(self, folder: Path, package: str, settings: dict[str, Any]) -> None:
        """Begin a run, or go on with the one that the folder names. Raises JobError where no server answers."""
        os.environ.setdefault(*TRIES)
        try:
            mlflow: Any = importlib.import_module("mlflow")
        except ImportError as error:
            raise BadConfiguration(
                f'{ADDRESS} is set and MLflow is not installed: write "gpu-repo-runtime[mlflow]" among the '
                "dependencies in pyproject.toml, then scripts/lock and scripts/setup; or leave the variable out"
            ) from error
        self._client = mlflow.MlflowClient()
        self._lost = False
        try:
            self._run = self._begin(folder / RUN, os.environ.get(EXPERIMENT) or package, settings)
        except Exception as error:
            raise JobError(
                f"MLflow at {ADDRESS} takes no run ({one_line(error)}): try again when it answers, or leave the "
                "variable out"
            ) from error
        say(f"MLflow has the course of this training as run {self._run}")

    def _begin(self, note: Path, experiment: str, settings: dict[str, Any]) -> str:
        if note.exists():
            run = note.read_text().strip()
            self._client.update_run(run, status="RUNNING")
            return run
        found = self._client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else self._client.create_experiment(experiment)
        run = str(self._client.create_run(number).info.run_id)
        for name, value in settings.items():
            self._client.log_param(run, name, value)
        note.write_text(run)
        return run

    def epoch(self, epoch: Epoch) -> None:
        """Log losses, accuracy and seconds of an epoch."""
        values = {"training_loss": epoch.training_loss, "loss": epoch.loss, "accuracy": epoch.accuracy}
        for name, value in (values | {"seconds": epoch.seconds}).items():
            self._tell(self._client.log_metric, self._run, name, value, step=epoch.epoch)

    def end(self, status: str, files: tuple[Path, ...] = ()) -> None:
        """Give the run its last state, after the files that people look at."""
        for file in files:
            self._tell(self._client.log_artifact, self._run, str(file))
        self._tell(self._client.set_terminated, self._run, status)

    def _tell(self, call: Callable[..., object], *values: object, **named: object) -> None:
        if self._lost:
            return
        try:
            call(*values, **named)
        except Exception as error:
            self._lost = True
            say(f"MLflow does not take the rest of the course, the training goes on: {one_line(error)}")


@contextmanager
def tracked(folder: Path, package: str, settings: dict[str, Any], first: bool) -> Iterator[Callable[[Epoch], None]]:
    """Give a function that logs an epoch, and end the run in the state that the training ends in.

    first: whether this is the first of the processes; the others log nothing.
    """
    if not (first and os.environ.get(ADDRESS)):
        yield lambda _: None
        return
    run = Tracking(folder, package, settings)
    try:
        yield run.epoch
    except BaseException as error:
        run.end(KILLED if isinstance(error, Stopped) else FAILED)
        raise
    run.end(FINISHED, tuple(folder / name for name in SHOWN))
