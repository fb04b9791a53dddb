"""How long texts are for the model, as far as their characters tell."""

from string import ascii_letters

import numpy as np
import pyarrow as pa

# It needs some memory for each byte.
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
