"""The weights of a model: where they come from, which bytes they are, and where they lie when the model is loaded.

``weights.toml`` is the owner's: a name, a source and a revision for each. ``weights.lock`` holds what was found there,
the size and the SHA-256 of each file. The folder that ``Model.load`` gets has a folder for each name.
"""

from .lockfile import LOCK, File, Lock, Weights
from .problems import WeightsError
from .using import Folder, digest, find, load, locked, used

__all__ = ["LOCK", "File", "Folder", "Lock", "Weights", "WeightsError", "digest", "find", "load", "locked", "used"]
