"""The epochs of a training in MLflow, if MLFLOW_TRACKING_URI names a server; without it nothing is imported."""

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..batch.exits import BadConfiguration, JobError, Stopped
from ..batch.messages import one_line, say

ADDRESS = "MLFLOW_TRACKING_URI"
EXPERIMENT = "MLFLOW_EXPERIMENT_NAME"
RUN = "mlflow_run.txt"
FILES = ("metrics.csv", "result.json")
# MLflow's default is 7 retries, which take minutes; a training does not wait that long.
RETRIES = ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")


@contextmanager
def tracked(folder: Path, package: str, settings: dict[str, Any], first: bool) -> Iterator[Callable[..., None]]:
    """Yield a function that logs an epoch, and end the run in the state that the training ends in.

    first: whether this is the first of the processes; the others log nothing. Raises JobError if no server answers at
    the start. A server that fails later is reported once: the training continues without it.
    """
    if not (first and os.environ.get(ADDRESS)):
        yield lambda epoch: None
        return
    mlflow = _begun(folder / RUN, package, settings)
    lost = False

    def send(call: Callable[..., object], *values: object, **named: object) -> None:
        nonlocal lost
        try:
            if not lost:
                call(*values, **named)
        except Exception as error:
            lost = True
            say(f"MLflow fails, the training continues without it: {one_line(error)}")

    def log(epoch: dict[str, Any]) -> None:
        values = {name: value for name, value in epoch.items() if name not in ("epoch", "steps")}
        send(mlflow.log_metrics, values, step=epoch["epoch"])

    try:
        yield log
    except BaseException as error:
        send(mlflow.end_run, "KILLED" if isinstance(error, Stopped) else "FAILED")
        raise
    for name in FILES:
        send(mlflow.log_artifact, str(folder / name))
    send(mlflow.end_run, "FINISHED")


def _begun(note: Path, package: str, settings: dict[str, Any]) -> Any:
    """Return MLflow with a run: a new one, or the one that the note in the output folder names."""
    os.environ.setdefault(*RETRIES)
    try:
        mlflow = importlib.import_module("mlflow")
    except ImportError as error:
        raise BadConfiguration(
            f'{ADDRESS} is set and MLflow is not installed: write "gpu-repo-runtime[mlflow]" among the '
            "dependencies in pyproject.toml, then scripts/lock and scripts/setup; or leave the variable out"
        ) from error
    try:
        mlflow.set_experiment(os.environ.get(EXPERIMENT) or package)
        if note.exists():
            mlflow.start_run(run_id=note.read_text().strip())
        else:
            note.write_text(mlflow.start_run().info.run_id)
            mlflow.log_params(settings)
    except Exception as error:
        raise JobError(
            f"MLflow at {ADDRESS} accepts no run ({one_line(error)}): try again when it answers, or leave the "
            "variable out"
        ) from error
    say(f"MLflow shows this training as run {note.read_text().strip()}")
    return mlflow
