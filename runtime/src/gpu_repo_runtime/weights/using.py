"""Where the weights are when a model is loaded, and how it gets them."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import store, wanted
from .lockfile import LOCK, Lock, read
from .problems import WeightsError

PLACE = "WEIGHTS"


def locked(package: str) -> Lock | None:
    """Return the lock of the project of a package, None if it has none. Raises WeightsError."""
    place = _lock_of(package)
    return None if place is None else read(place)


def find(package: str) -> Path | None:
    """Return the folder of a project's weights, None if it has no lock. Raises WeightsError if they are not here.

    It is the one that WEIGHTS names, else the image's, else the checkout's folder weights or the cache.
    """
    place = _lock_of(package)
    if place is None:
        return None
    lock, root = read(place), place.parent
    if given := os.environ.get(PLACE):
        folder = Path(given)
    elif root.name == store.FOLDER:
        folder = root
    else:
        wanted.check_current(root, lock)
        if wrong := store.damaged(root / store.FOLDER, store.in_git(lock)):
            changed = root / store.FOLDER / wrong[0]
            raise WeightsError(f"{place} is out of date: {changed} was changed: run scripts/weights lock")
        folder = store.place_in(root, lock)
        if folder == root / store.FOLDER:
            return folder  # in git, without a lock of its own
    if reason := store.lacking(folder, lock):
        raise WeightsError(
            f"{folder} does not have the weights of {place}: {reason}: run scripts/weights fetch, or let {PLACE} name "
            "the folder that it filled"
        )
    return folder


def takes(load: Callable[..., Any]) -> bool:
    """Return whether the owner's ``load`` has an argument for the folder of the weights."""
    return "weights" in inspect.signature(load).parameters


def load(model: Any, device: str) -> Any:
    """Call ``Model.load``, with the folder of the weights if it has an argument for it; return its result.

    Raises WeightsError, or what the owner's code raises.
    """
    if not takes(model.load):
        return model.load(device)
    folder = find(_package(model))
    if folder is None:
        raise WeightsError(
            "Model.load has an argument weights, and there is no weights.lock: name their source in weights.toml and "
            "run scripts/weights lock"
        )
    return model.load(device, weights=folder)


def used(model: Any) -> Lock | None:
    """Return the lock of the weights that a model is loaded with, None if it has none. Raises WeightsError."""
    return locked(_package(model)) if takes(model.load) else None


def _package(model: Any) -> str:
    return type(model).__module__.split(".")[0]


def _lock_of(package: str) -> Path | None:
    """Return the lock next to src/ of a checkout, or among the weights of an image."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).resolve().parent.parent.parent
    return next((place for place in (root / LOCK, root / store.FOLDER / LOCK) if place.is_file()), None)
