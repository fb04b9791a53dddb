"""Where the weights are when a model is loaded, and how it gets them."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import store, wanted
from .lockfile import LOCK, Lock, misses, read
from .problems import WeightsError

ARGUMENT = "weights"
FOLDER = "weights"
PLACE = "WEIGHTS"


@dataclass(frozen=True)
class Folder:
    """The folder with a folder for each name of weights, and their lock."""

    path: Path
    lock: Lock


def locked(package: str) -> Lock | None:
    """Return the lock of the project that a package is of, None where there is none. Raises WeightsError.

    In a checkout it lies beside src/; an image has it among its weights, also where these come from a volume.
    """
    place = _lock_of(package)
    return None if place is None else read(place)


def find(package: str) -> Folder | None:
    """Return the weights of a project, None where it has no lock. Raises WeightsError where they are not here.

    They are in the folder that WEIGHTS names, else in weights/ of the checkout or the image, else in the cache.
    """
    place = _lock_of(package)
    if place is None:
        return None
    lock = read(place)
    own = place.parent if place.parent.name == FOLDER else place.parent / FOLDER
    if given := os.environ.get(PLACE):
        return Folder(_held(Path(given), lock), lock)
    if place.parent.name != FOLDER:
        _check_checkout(place, own, lock)
    if not misses(own, lock):
        return Folder(own, lock)
    cached = store.place_of(lock)
    if store.is_whole(cached, lock):
        return Folder(cached, lock)
    raise WeightsError(
        f"the weights of {place} are neither in {own} ({misses(own, lock)}) nor in {cached}: run "
        f"scripts/weights fetch, or let {PLACE} name their folder"
    )


def _check_checkout(place: Path, own: Path, lock: Lock) -> None:
    """Raise WeightsError where the owner changed weights.toml, or weights that are in git, and did not lock them."""
    changed = f"[{name}]" if (name := wanted.stale(place.parent, lock)) else ""
    if not changed and any((own / one.name).is_dir() for one in lock.weights) and (wrong := store.damaged(own, lock)):
        changed = str(own / wrong[0])
    if changed:
        raise WeightsError(f"{place} is out of date: {changed} was changed: run scripts/weights lock")


def takes(load: Callable[..., Any]) -> bool:
    """Tell whether the owner's ``load`` asks for the folder of the weights."""
    try:
        return ARGUMENT in inspect.signature(load).parameters
    except (TypeError, ValueError):
        return False


def load(model: Any, device: str) -> Any:
    """Call ``Model.load``, with the folder of the weights where it asks for it; return what it returned.

    Raises WeightsError, or what the owner's code raises.
    """
    if not takes(model.load):
        return model.load(device)
    package = type(model).__module__.split(".")[0]
    folder = find(package)
    if folder is None:
        raise WeightsError(
            "Model.load has an argument weights, and there is no weights.lock: name their source in weights.toml and "
            "run scripts/weights lock"
        )
    return model.load(device, **{ARGUMENT: folder.path})


def digest(model: Any) -> str:
    """Return what stands for the weights that a model asks for, "" where it asks for none. Raises WeightsError."""
    lock = used(model)
    return lock.digest if lock else ""


def used(model: Any) -> Lock | None:
    """Return the lock of the weights that a model asks for, None where it asks for none. Raises WeightsError."""
    return locked(type(model).__module__.split(".")[0]) if takes(model.load) else None


def _lock_of(package: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).resolve().parent.parent.parent
    return next((place for place in (root / LOCK, root / FOLDER / LOCK) if place.is_file()), None)


def _held(given: Path, lock: Lock) -> Path:
    """Return a folder that was named, held to the lock."""
    if (given / LOCK).is_file():
        there = read(given / LOCK)
        if there.digest != lock.digest:
            raise WeightsError(
                f"{PLACE}={given} holds the weights {there.digest}, this project was locked to {lock.digest}: bring "
                "the right ones there, or lock these"
            )
    if missing := misses(given, lock):
        raise WeightsError(
            f"{PLACE}={given} does not hold {missing} as weights.lock says: is the volume filled and mounted?"
        )
    return given
