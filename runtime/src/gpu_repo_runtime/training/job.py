"""The command `train`: finds the task and its framework, trains in the output folder, returns the exit code."""

import fcntl
import importlib
import os
import traceback
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import PicklingError
from typing import Any

from .. import device
from ..batch.exits import DONE, MISTAKES, BadConfiguration, JobError, Stopped
from ..batch.job import choose_device
from ..batch.messages import one_line
from ..batch.stop import Stop
from .engine import DEFAULTS
from .loop import Training

PACKAGES = {"sklearn": "scikit-learn", "orbax": "orbax-checkpoint"}
# Another try meets them again.
MISTAKES_OF_A_TASK = (*MISTAKES, ImportError, SyntaxError, PicklingError, FileNotFoundError)


def train_job(options: Namespace) -> int:
    """Train and return the exit code 0. Raises JobError."""
    stop = Stop(options.grace)
    try:
        with stop, _alone_in(Path(options.output)):
            with stop.at_once("the training was prepared"):
                training = _training(options, stop)
            training.run()
    except JobError:
        raise
    except Exception as error:
        if stop.signal:  # a process that reads ahead got it too
            raise Stopped(stop.signal) from error
        if not isinstance(error, MISTAKES_OF_A_TASK):
            raise
        traceback.print_exc()
        raise BadConfiguration(f"the task fails (above): {one_line(error)}") from error
    return DONE


@contextmanager
def _alone_in(output: Path) -> Iterator[None]:
    """Make the folder, and keep other trainings out of it. Raises JobError."""
    if ":" in output.parts[0] or output.is_file():
        raise BadConfiguration(f"--output {output}: a training writes to a folder on a disk")
    output.mkdir(parents=True, exist_ok=True)
    with (output / ".lock").open("w") as file:
        try:
            if not int(os.environ.get("RANK", "0")):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobError(f"another training is at work in {output}: wait for its end, or take another") from None
        except OSError:
            pass  # a disk without locks
        yield


def _training(options: Namespace, stop: Stop) -> Training:
    try:
        task = importlib.import_module(f"{options.package}.task").Task()
        framework = framework_of(task)
        make = importlib.import_module(f".with_{framework}", __package__).Engine
    except ModuleNotFoundError as error:
        root = (error.name or "").partition(".")[0]
        raise BadConfiguration(
            f'the training needs {error.name}: add "{PACKAGES.get(root, root)}" to the dependencies in '
            "pyproject.toml, then run scripts/lock and scripts/setup"
        ) from error
    for name, default in DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif name not in make.applies:
            raise BadConfiguration(f"--{name.replace('_', '-')} does not apply to {framework}: set it in task.py")
    options.device = choose_device(options.device)
    return Training(task, make, options, stop)


def framework_of(task: Any) -> str:
    """Return "plain" for a task that has an estimator, the framework of one that has a network."""
    if hasattr(task, "estimator"):
        return "plain"
    if not hasattr(task, "network"):
        page = "docs/how-to/train-on-your-data.md"
        raise BadConfiguration(f"the Task of task.py has no network() and no estimator(): see {page}")
    return next(iter((*device.imported(), "torch")))
