"""The owner's src/<package>/task.py, and which framework it is for."""

import importlib
import sys
from typing import Any

from ..batch.exits import MISTAKES, BadConfiguration
from ..device import FRAMEWORKS, imported
from .engine import Engine, Recipe


def load_task(package: str) -> Any:
    """Return the owner's task. Raises BadConfiguration when it cannot be imported."""
    try:
        return importlib.import_module(f"{package}.task").Task()
    except (ImportError, SyntaxError, *MISTAKES) as error:
        raise BadConfiguration(f"src/{package}/task.py cannot be used: {error}") from error


def open_engine(task: Any, recipe: Recipe) -> Engine:
    """Return the engine of the framework that the task is written for. Raises BadConfiguration."""
    found = framework_of(task)
    only_torch = {
        f"--parallel {recipe.parallel}": recipe.parallel != "ddp",
        "--gradient-checkpointing": recipe.gradient_checkpointing,
        "--loaders": recipe.loaders,
    }
    for option, is_set in only_torch.items():
        if is_set and found != "torch":
            raise BadConfiguration(f"{option} needs the framework torch; this task is for {found}")
    module = importlib.import_module(f".with_{found}", __package__)
    engine: Engine = module.Engine(task, recipe)
    return engine


def framework_of(task: Any) -> str:
    """Return "plain" for a task that has an estimator, the framework of one that has a network."""
    if hasattr(task, "estimator"):
        return "plain"
    if not hasattr(task, "network"):
        raise BadConfiguration(
            f"the Task of task.py has no network ({', '.join(FRAMEWORKS)}) and no estimator (scikit-learn): "
            "see docs/how-to/train-on-your-data.md"
        )
    # The imports of task.py itself count before those of its imports.
    own = vars(sys.modules[type(task).__module__]).values()
    roots = [str(getattr(value, "__name__", "")).partition(".")[0] for value in own]
    return next(iter((*(name for name in FRAMEWORKS if name in roots), *imported(), FRAMEWORKS[0])))
