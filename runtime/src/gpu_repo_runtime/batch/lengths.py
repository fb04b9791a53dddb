"""How long texts are for the model: what it says itself, or else an estimate."""

from collections.abc import Callable
from string import ascii_letters
from typing import Any

import numpy as np
import pyarrow as pa

from .exits import BadConfiguration
from .messages import one_line, say

# Tokenizers need much memory for what they return, and the estimate some for each byte.
ASKED_AT_ONCE = 1024
BYTES_AT_ONCE = 4 << 20

# What a byte of UTF-8 is, in bits, and four bits higher what counts after it. A sign counts after anything, and so does
# the first byte of a character of another script than Latin; a letter unless a word goes on; a space after a space.
# What begins a text comes as after a sign.
_SIGN, _LETTER, _SPACE = 1, 2, 4
_AFTER = 4
_AFTER_SIGN = _SIGN | _LETTER
_KINDS = np.full(256, _SIGN | _AFTER_SIGN << _AFTER, np.uint8)
_KINDS[: ord(" ") + 1] = _SPACE | (_SIGN | _LETTER | _SPACE) << _AFTER
_KINDS[list(ascii_letters.encode())] = _LETTER | _SIGN << _AFTER
_KINDS[0x80:0xC0] = _SIGN << _AFTER
_KINDS[0xC0:0xCA] = _LETTER | _SIGN << _AFTER
_BYTES = pa.array(_KINDS)


def estimate(texts: pa.StringArray) -> np.ndarray:
    """Return (texts,) int64: about how long texts are, in proportion to their tokens and not to their bytes.

    A tokenizer takes a sign, a digit or a character of another script than Latin by itself, a short word as a whole, a
    long one in pieces; some take each further space. All of it counts: a text that is thought too long pads itself, one
    that is thought too short pads all others of its batch. texts: without nulls.
    """
    rows = max(1, len(texts) * BYTES_AT_ONCE // max(1, texts.nbytes))
    found = [_estimate(texts.slice(row, rows)) for row in range(0, len(texts), rows)]
    return np.concatenate([np.zeros(0, np.int64), *found])


def _estimate(texts: pa.StringArray) -> np.ndarray:
    bounds = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
    starts, sizes = bounds[:-1] - bounds[0], np.diff(bounds)
    # Arrow looks bytes up without making numbers of 8 bytes of them first, as NumPy does.
    kinds = _BYTES.take(pa.array(content)).to_numpy()
    # One byte more, for empty texts at the end: they start where no text is any more.
    counted = np.zeros(len(content) + 1, np.uint8)
    np.right_shift(kinds, _AFTER, out=counted[1:])
    counted[starts] = _AFTER_SIGN
    counted[:-1] &= kinds
    counted[-1] = 0
    signs: np.ndarray = np.where(sizes, np.add.reduceat(counted.astype(bool), starts, dtype=np.int64), 0)
    signs += sizes // 4
    return signs


class OwnLengths:
    """The model's method `lengths`: texts in, a whole number for each out, for example that of its tokens."""

    def __init__(self, model: Any) -> None:
        """Try the model's examples. Raises BadConfiguration when that does not work."""
        self._method = model.lengths
        self._failed = False
        try:
            self._ask(list(model.examples))
        except BadConfiguration:
            raise
        except BaseException as error:
            raise BadConfiguration(f"`lengths` fails on the model's own examples: {one_line(error)}") from error

    def of(self, texts: list[str], between: Callable[[], None]) -> np.ndarray | None:
        """Return (texts,) int64, None when it fails on one of the texts, which is said once.

        between: called before each batch of texts; what it raises goes on. Raises BadConfiguration.
        """
        found = [np.zeros(0, np.int64)]
        for position in range(0, len(texts), ASKED_AT_ONCE):
            between()
            try:
                found.append(self._ask(texts[position : position + ASKED_AT_ONCE]))
            except BadConfiguration:
                raise
            except BaseException as error:
                if not self._failed:
                    say(f"`lengths` of the model fails, so that batches hold more padding: {one_line(error)}")
                self._failed = True
                return None
        return np.concatenate(found)

    def _ask(self, texts: list[str]) -> np.ndarray:
        lengths = np.asarray(self._method(texts))
        if lengths.shape != (len(texts),) or lengths.dtype.kind not in "iu":
            raise BadConfiguration(
                f"`lengths` gave {lengths.dtype} of shape {lengths.shape} for {len(texts)} texts: "
                f"it has to give a whole number for each"
            )
        return lengths.astype(np.int64)
