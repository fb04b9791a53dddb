"""Layer thorough (--thorough SECONDS): patterns over most of the free memory and matrix products, sustained.

The products are made twice: with plain arithmetic, and on the tensor cores.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterator
from typing import Any

from .. import gpus, witness
from ..calls import Api, CallFailed
from ..isolate import Facts, Session
from ..spec import ALL, LayerSpec
from ..verdicts import Context, Finding, Layer, finding
from . import kernel_text, nvml, tensor_text
from .kernels import (
    NOT_RUN,
    failed_call,
    judge_devices,
    named,
    primary_context,
    processors,
    started,
    tensor_cores,
    usable,
    without_tensor_cores,
)
from .memory import free_memory
from .running import function, launch, loaded, room
from .thorough_tensor import TensorLoad

NAME, TITLE, LEVEL = "thorough", "sustained load", "gpu"
GIB, PAGE = 1 << 30, 1 << 21
# Left to the driver and to neighbours; of memory that is the machine's own too, most is left.
LEFT, SHARED_PART = GIB // 2, 4
THREADS, BLOCKS_EACH = 256, 8
MOST_SIDE, LEAST_SIDE, MOST_PRODUCTS = 4096, 256, 256
ROUND_S = 0.5
WORDS, NOTHING = 4, (0, kernel_text.WORD, 0, 0)
OUT_OF_MEMORY = 2


def probe(context: Context, session: Session) -> Facts:
    """Load all chosen GPUs at once; facts: ``devices`` with what was tested and what came back wrong, ``after``."""
    count = usable(context)
    if not count:
        return dict(NOT_RUN)
    api = started(session)
    with contextlib.ExitStack() as stack:
        loads = [Load(context, api, number) for number in range(count)]
        for load in loads:
            load.attempt(lambda load=load: stack.enter_context(load.prepared()))
        _sustain(context.options.thorough_s, loads, session)
        after = nvml.again(context, session)
        return {"devices": [load.facts for load in loads], "after": after}


def _sustain(seconds: float, loads: list[Load], session: Session) -> None:
    """Give rounds of work to every GPU until the time is over; one that failed gets no more."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        working = [load for load in loads if not load.facts["rc"]]
        if not working:
            return
        session.alive(passed / seconds, _progress(passed, seconds, loads))
        for load in working:
            load.attempt(load.start)
        for load in working:
            load.attempt(load.finish)
            load.facts["seconds"] = round(time.monotonic() - began, 1)


def _progress(passed: float, seconds: float, loads: list[Load]) -> str:
    tested = sum(load.facts["bytes"] for load in loads) / GIB
    wrong = sum(load.facts["wrong_words"] + load.facts["wrong_rows"] + load.facts["wrong_tensor"] for load in loads)
    rounds = min(load.facts["rounds"] for load in loads)
    told = f", {wrong} WRONG" if wrong else ""
    return f"{passed:.0f} of {seconds:.0f} s, {len(loads)} GPUs, {tested:.1f} GiB, round {rounds + 1}{told}"


class Load:
    """The work on one GPU. Each round writes and checks a pattern over the memory, and adds up products."""

    def __init__(self, context: Context, api: Api, number: int) -> None:
        self.context, self.api, self.number = context, api, number
        self.facts: Facts = {"number": number, "rc": 0, "call": "", "bytes": 0, "rounds": 0, "products": 0, "side": 0,
                             "wrong_words": 0, "first": -1, "bits": 0, "wrong_rows": 0, "seconds": 0.0,
                             "wrong_tensor": 0, "tensor_products": 0, "bad": [], "reached": 0}  # fmt: skip
        self.tensor: TensorLoad | None = None
        self.blocks: list[tuple[ctypes.c_uint64, int]] = []
        self.products = 1
        self.began = 0.0

    def attempt(self, step: Any) -> None:
        """Do a step on this GPU, and keep the call that failed."""
        if self.facts["rc"]:
            return
        try:
            step()
        except CallFailed as error:
            self.facts.update(rc=error.rc, call=error.call)

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Take the memory and compile the kernels; all of it is given back at the end."""
        with contextlib.ExitStack() as stack:
            self.handle = stack.enter_context(primary_context(self.api, self.number))
            # Whatever was done last on another GPU: what is given back belongs to this one.
            stack.callback(lambda: self.api.code("cuCtxSetCurrent", self.handle))
            text = kernel_text.universal(kernel_text.PATTERNS + kernel_text.PRODUCT)
            module = stack.enter_context(loaded(self.api, text))
            names = (b"gpu_smoke_fill", b"gpu_smoke_check", b"gpu_smoke_product")
            self.fill, self.check, self.product = (function(self.api, module, name) for name in names)
            self.grid = ((processors(self.context, self.number) or 160) * BLOCKS_EACH, 1)
            free = free_memory(self.api)[0]
            self._matrices(stack, free)
            if tensor_cores(self.context, self.number):
                self.tensor = TensorLoad(self.api, stack, processors(self.context, self.number))
            self._take(stack, free)
            self.told = stack.enter_context(room(self.api, 4 * WORDS * len(self.blocks)))
            yield

    def _matrices(self, stack: contextlib.ExitStack, free: int) -> None:
        side = MOST_SIDE
        while side > LEAST_SIDE and 3 * 4 * side * side > free // 32:
            side //= 2
        self.side = self.facts["side"] = side
        size = 4 * side * side
        self.matrices = [stack.enter_context(room(self.api, size)) for _ in range(3)]
        for place, data in zip(self.matrices, kernel_text.matrices(side), strict=False):
            self.api.check("cuMemcpyHtoD_v2", place, data, ctypes.c_size_t(size))
        self.back = ctypes.create_string_buffer(size)

    def _take(self, stack: contextlib.ExitStack, free: int) -> None:
        """Take blocks until most of the free memory is taken, or the driver gives no more."""
        left = free // SHARED_PART if witness.shares_memory(self.context, self.number) else free - min(LEFT, free // 8)
        left -= 3 * 4 * self.side * self.side
        while left >= PAGE:
            size = min(GIB, left) // PAGE * PAGE
            try:
                self.blocks.append((stack.enter_context(room(self.api, size)), size))
            except CallFailed as error:
                if error.rc != OUT_OF_MEMORY or not self.blocks:
                    raise
                break
            left -= size
        self.facts["bytes"] = sum(size for _, size in self.blocks)

    def _given(self, number: int) -> tuple[ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32]:
        """Return words, seed and flipped bits of a block in this round: each pattern is followed by its complement."""
        turn = self.facts["rounds"]
        seed = (turn // 2 * 977 + number * 7919 + 1) * 40503 & kernel_text.WORD
        flip = kernel_text.WORD if turn % 2 else 0
        return ctypes.c_uint32(self.blocks[number][1] // 4), ctypes.c_uint32(seed), ctypes.c_uint32(flip)

    def start(self) -> None:
        """Give the GPU one round of work, and do not wait for it."""
        api, self.began = self.api, time.monotonic()
        api.check("cuCtxSetCurrent", self.handle)
        clean = (ctypes.c_uint32 * (WORDS * len(self.blocks)))(*(NOTHING * len(self.blocks)))
        api.check("cuMemcpyHtoD_v2", self.told, clean, ctypes.c_size_t(ctypes.sizeof(clean)))
        # All is written before anything is read: a block that answers for another is found.
        for number, (block, _) in enumerate(self.blocks):
            launch(api, self.fill, self.grid, THREADS, block, *self._given(number))
        for number, (block, _) in enumerate(self.blocks):
            told = ctypes.c_uint64(self.told.value + 4 * WORDS * number)
            launch(api, self.check, self.grid, THREADS, block, *self._given(number), told)
        api.check("cuMemsetD8_v2", self.matrices[2], ctypes.c_ubyte(0), ctypes.c_size_t(len(self.back)))
        for _ in range(self.products):
            across = (self.side // THREADS, self.side)
            launch(api, self.product, across, THREADS, *self.matrices, ctypes.c_uint32(self.side))
        if self.tensor:
            self.tensor.start(self.products)

    def finish(self) -> None:
        """Wait for the round, and compare what came back."""
        api = self.api
        api.check("cuCtxSetCurrent", self.handle)
        api.check("cuCtxSynchronize")
        told = (ctypes.c_uint32 * (WORDS * len(self.blocks)))()
        api.check("cuMemcpyDtoH_v2", told, self.told, ctypes.c_size_t(ctypes.sizeof(told)))
        place = 0
        for number, (_, size) in enumerate(self.blocks):
            count, first, bits, _ = told[WORDS * number : WORDS * (number + 1)]
            if count:
                self.facts["first"] = place + 4 * first if self.facts["first"] < 0 else self.facts["first"]
                self.facts["wrong_words"] += count
                self.facts["bits"] |= bits
            place += size
        api.check("cuMemcpyDtoH_v2", self.back, self.matrices[2], ctypes.c_size_t(len(self.back)))
        self.facts["wrong_rows"] += self._wrong_rows()
        if self.tensor:
            self.tensor.finish(self.facts)
        self.facts["rounds"] += 1
        self.facts["products"] += self.products
        if time.monotonic() - self.began < ROUND_S:
            self.products = min(MOST_PRODUCTS, 2 * self.products)

    def _wrong_rows(self) -> int:
        wanted, length, back = kernel_text.rows(self.side, self.products), 4 * self.side, self.back.raw
        if back == b"".join(wanted) * (self.side // kernel_text.PERIOD):
            return 0
        found = (back[row * length : (row + 1) * length] for row in range(self.side))
        return sum(have != wanted[row % kernel_text.PERIOD] for row, have in enumerate(found))


def evaluate(context: Context) -> Layer:
    """Decide on each GPU's memory and products, and on what NVML says after the load."""
    layer = Layer(NAME, TITLE, LEVEL)
    devices = judge_devices(context, layer, _judge_device)
    if devices:
        tested, rounds = sum(one["bytes"] for one in devices) / GIB, min(one["rounds"] for one in devices)
        speed = sum(2 * one["side"] ** 3 * one["products"] / max(one["seconds"], 0.1) for one in devices) / 1e12
        layer.summary = (
            f"{max(one['seconds'] for one in devices):.0f} s: {rounds} rounds over {tested:.1f} GiB, "
            f"{sum(one['products'] for one in devices)} matrix products at {speed:.2g} TFLOP/s"
            f"{_tensor_speed(devices)}{without_tensor_cores(context, [one['number'] for one in devices])}"
        )
        layer.findings += nvml.worn_since(context, context.fact(NAME, "after") or [])
    return layer.settle()


def _tensor_speed(devices: list[Facts]) -> str:
    speed = sum(tensor_text.OPERATIONS * one["tensor_products"] / max(one["seconds"], 0.1) for one in devices) / 1e12
    return f", on tensor cores at {speed:.2g}" if speed else ""


def _judge_device(context: Context, device: Facts) -> list[Finding]:
    where, found = gpus.cuda_name(context, device["number"]), []
    after = f"after {device['seconds']:.0f} s, {device['rounds']} rounds"
    if device["wrong_words"]:
        evidence = (
            f"{where}: {device['wrong_words']} wrong words of 4 bytes, the first at {device['first']:#x} of "
            f"{device['bytes']:#x}, bits {device['bits']:#010x}; {after}"
        )
        found.append(finding(context, "GS716", evidence))
    if device["wrong_rows"]:
        evidence = (
            f"{where}: {device['wrong_rows']} rows of {device['side']} are wrong in {device['products']} products"
        )
        found.append(finding(context, "GS717", f"{evidence}; {after}"))
    if device["wrong_tensor"]:
        evidence = f"{where}, tensor cores: {device['wrong_tensor']} values are wrong, on {named(device)}"
        found.append(finding(context, "GS720", f"{evidence}; {after}"))
    if device["rc"]:
        found += failed_call(context, device, where, "GS708", after=f"; {after}")
    return found


LAYERS = (
    LayerSpec(NAME, 105, evaluate, probe, "gpu", carries=ALL, wanted=lambda context: context.options.thorough_s > 0),
)
