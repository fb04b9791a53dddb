"""How long inputs are for the model, as it says itself."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .calling import Caller
from .exits import BadConfiguration
from .messages import one_line, say
from .ordering import Sorted

# Tokenizers need much memory for what they return.
ASKED_AT_ONCE = 1024


class OwnLengths:
    """What the model says of its inputs: by `size` of one, or by `lengths` of many texts, as in version 0.2."""

    def __init__(self, caller: Caller, name: str, method: Callable[[list[Any]], Any]) -> None:
        """Try the model's examples. Raises BadConfiguration when that does not work."""
        self._caller, self._name, self._method = caller, name, method
        self._failed = False
        try:
            self._ask(caller.examples())
        except BadConfiguration:
            raise
        except BaseException as error:
            raise BadConfiguration(f"`{name}` fails on the model's own examples: {one_line(error)}") from error

    def of(self, rows: Sorted, between: Callable[[], None]) -> np.ndarray | None:
        """Return (rows,) int64, None when it fails on one of the rows, which is said once.

        between: called before each batch of rows; what it raises goes on. Raises BadConfiguration.
        """
        found = [np.zeros(0, np.int64)]
        for position in range(0, len(rows), ASKED_AT_ONCE):
            between()
            inputs, refused = self._caller.inputs(rows.part, rows.some(position, position + ASKED_AT_ONCE))
            try:
                asked = self._ask(inputs)
            except BadConfiguration:
                raise
            except BaseException as error:
                if not self._failed:
                    say(f"`{self._name}` of the model fails, so that batches hold more padding: {one_line(error)}")
                self._failed = True
                return None
            # Those that are not inputs come last.
            found.append(np.insert(asked, [place - n for n, place in enumerate(sorted(refused))], 0))
        return np.concatenate(found)

    def _ask(self, inputs: list[Any]) -> np.ndarray:
        if not inputs:
            return np.zeros(0, np.int64)
        lengths = np.asarray(self._method(inputs))
        what = "texts" if self._name == "lengths" else "inputs"
        if lengths.shape != (len(inputs),) or lengths.dtype.kind not in "iu":
            raise BadConfiguration(
                f"`{self._name}` gave {lengths.dtype} of shape {lengths.shape} for {len(inputs)} {what}: "
                f"it has to give a whole number for each"
            )
        return lengths.astype(np.int64)


def own_lengths(caller: Caller) -> OwnLengths | None:
    """Return what asks the model for lengths, None where it says nothing of them. Raises BadConfiguration."""
    interface = caller.interface
    if interface.size is not None:
        return OwnLengths(caller, "size", caller.sizes)
    lengths = getattr(interface.model, "lengths", None)
    return OwnLengths(caller, "lengths", lengths) if interface.is_text and callable(lengths) else None
