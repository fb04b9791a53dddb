"""The weights of a model: where they come from, which bytes they are, and where they are when the model is loaded.

``weights.toml`` is the owner's: a name, a source and a revision for each. ``weights.lock`` records size and SHA-256 of
each file that was found there. The folder that ``Model.load`` gets has a subfolder for each name.
"""

from .lockfile import LOCK, File, Lock, Weights
from .problems import WeightsError
from .using import find, load, locked, used

__all__ = ["LOCK", "File", "Lock", "Weights", "WeightsError", "find", "load", "locked", "used"]
