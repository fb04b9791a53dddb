"""The part of the sustained load that keeps the tensor cores busy."""

from __future__ import annotations

import contextlib
import ctypes
from array import array

from ..calls import Api
from ..isolate import Facts
from . import kernel_text, tensor_text
from .running import PROCESSORS, function, launch, loaded, over, room, wrong_places

# Turns for each plain product, which takes far longer; their number is odd: see tensor_text.ROUNDS.
TURNS_EACH = 64
# A display's watchdog ends a kernel that runs for seconds.
MOST_TURNS = 2048


class TensorLoad:
    """Chains of products on every multiprocessor of one GPU, in one launch a round: a block stays where it began."""

    def __init__(self, api: Api, stack: contextlib.ExitStack, processors: int) -> None:
        self.api, self.blocks, self.turns = api, (processors or PROCESSORS) * kernel_text.BLOCKS_EACH, 0
        module = stack.enter_context(loaded(api, tensor_text.text()))
        self.kernel = function(api, module, tensor_text.NAME)
        self.given = over(tensor_text.answer()[0], self.blocks)
        self.size = ctypes.c_size_t(len(self.given))
        self.values, self.places = (stack.enter_context(room(api, len(self.given))) for _ in range(2))

    def start(self, products: int) -> None:
        """Give the GPU the chains of one round, and do not wait for them."""
        self.turns = min(TURNS_EACH * products, MOST_TURNS) + 1
        self.api.check("cuMemcpyHtoD_v2", self.values, self.given, self.size)
        turns, threads = ctypes.c_uint32(self.turns), kernel_text.THREADS
        launch(self.api, self.kernel, (self.blocks, 1), threads, self.values, self.places, turns)

    def finish(self, facts: Facts) -> None:
        """Compare what came back, and name the multiprocessors that gave what is wrong."""
        values, places = (self._back(place) for place in (self.values, self.places))
        wanted, numbers = over(tensor_text.answer(self.turns)[1], self.blocks), array("I", places)
        facts["reached"] = max(facts["reached"], len(set(numbers)))
        each = tensor_text.ROUNDS * tensor_text.PRODUCTS
        facts["tensor_products"] += self.turns * each * len(numbers) // tensor_text.LANES
        if values != wanted:
            wrong = wrong_places(values, wanted, numbers)
            facts["wrong_tensor"] += sum(wrong.values())
            facts["bad"] = sorted({*facts["bad"], *wrong})

    def _back(self, place: ctypes.c_uint64) -> bytes:
        data = ctypes.create_string_buffer(self.size.value)
        self.api.check("cuMemcpyDtoH_v2", data, place, self.size)
        return data.raw
