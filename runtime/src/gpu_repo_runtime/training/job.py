"""The command `train`: finds the task and its framework, trains in the output folder, returns the exit code."""

import importlib
import traceback
from argparse import Namespace
from pathlib import Path
from pickle import PicklingError
from typing import Any

from .. import device
from ..batch.exits import DONE, MISTAKES, BadConfiguration
from ..batch.job import choose_device
from ..batch.messages import one_line
from ..batch.stop import Stop
from .engine import DEFAULTS, Engine
from .folder import locked
from .loop import Training

PACKAGES = {"sklearn": "scikit-learn", "orbax": "orbax-checkpoint"}


def train_job(options: Namespace) -> int:
    """Train and return the exit code 0. Raises JobError."""
    try:
        with Stop(0) as stop, stop.at_once("it trained"), locked(Path(options.output), Engine.rank):
            task, make = _task_and_engine(options)
            options.device = choose_device(options.device)
            Training(task, make, options).run()
    except (*MISTAKES, ImportError, SyntaxError, PicklingError, FileNotFoundError) as error:  # another try fails too
        traceback.print_exc()
        raise BadConfiguration(f"the task fails (above): {one_line(error)}") from error
    return DONE


def _task_and_engine(options: Namespace) -> tuple[Any, type[Engine]]:
    """Return the owner's task and the engine of its framework; set the options that are not set."""
    try:
        task = importlib.import_module(f"{options.package}.task").Task()
        if not (hasattr(task, "network") or hasattr(task, "estimator")):
            raise BadConfiguration("Task has no network() or estimator(): see docs/how-to/train-on-your-data.md")
        framework = "plain" if hasattr(task, "estimator") else (*device.imported(), "torch")[0]
        make: type[Engine] = importlib.import_module(f".with_{framework}", __package__).Engine
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
    return task, make
