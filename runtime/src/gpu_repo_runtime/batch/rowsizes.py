"""How many bytes the values of each row have, also those in lists and objects."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_TEXTS = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)


def row_sizes(array: pa.Array) -> np.ndarray:
    """Return (rows,) int64: the bytes of each value; of what is in a list or an object all of it."""
    form = array.type
    if types.is_dictionary(form):
        sizes: np.ndarray = np.append(row_sizes(array.dictionary), 0)
        found: np.ndarray = sizes[array.indices.fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)]
        return found
    if types.is_string_view(form) or types.is_binary_view(form):
        array = array.cast(pa.large_binary())
    if any(is_text(array.type) for is_text in _TEXTS):
        return np.asarray(pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False), np.int64)
    if types.is_struct(form):
        return sum((row_sizes(array.field(n)) for n in range(form.num_fields)), np.zeros(len(array), np.int64))
    if types.is_map(form):
        return _of_items(array.offsets, row_sizes(array.keys) + row_sizes(array.items))
    if types.is_list(form) or types.is_large_list(form):
        return _of_items(array.offsets, row_sizes(array.values))
    if types.is_fixed_size_list(form):
        begin, end = array.offset * form.list_size, (array.offset + len(array)) * form.list_size
        items = row_sizes(array.values.slice(begin, end - begin))
        return np.asarray(items.reshape(len(array), form.list_size).sum(axis=1))
    return np.full(len(array), 0 if types.is_null(form) else -(-form.bit_width // 8), np.int64)


def _of_items(offsets: pa.Array, sizes: np.ndarray) -> np.ndarray:
    ends: np.ndarray = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])[offsets.to_numpy()]
    return np.diff(ends)
