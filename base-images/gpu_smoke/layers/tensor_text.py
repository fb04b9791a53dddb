"""The PTX text that computes on the tensor cores, and what it must answer: matrix products in Python's whole numbers.

Both operands are the same number everywhere, so no answer depends on which thread holds which element; the third one
differs by thread and register, and stays where it is. All sums are whole numbers that a float holds.
"""

from __future__ import annotations

import functools
import itertools
from array import array

from .kernel_text import FACTOR, OWN_WORD, THREADS, WORD, head

NAME = b"gpu_smoke_tensor"
# The first PTX version, CUDA version and compute capability with this product of matrices.
VERSION, TARGET, CUDA, CAPABILITY = "6.5", "sm_75", 10020, (7, 5)
# Odd numbers: a fault that is the same each time does not add up to nothing in 32 bits.
TURNS, ROUNDS, PRODUCTS = 1, 255, 15
LANES, REGISTERS, PERIOD, DEPTH = 32, 4, 64, 8
# Of one product: 16 rows, 8 columns, each a sum of DEPTH multiplications.
OPERATIONS = 2 * 16 * 8 * DEPTH
SEED, STEP = 2654435769, 1013904223
# So many bits of either factor: DEPTH * 2 ** 11 * 2 ** 8 is far below the 2 ** 24 up to which floats are whole.
LEFT, RIGHT, ADDED = 12, 9, 8


def _product(left: str) -> str:
    sums = "{%f1, %f2, %f3, %f4}"
    return f"    mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {sums}, {{{left}, {left}}}, {{%r9}}, {sums};\n"


# Every other product is taken away again; an odd number of them leaves one.
_PRODUCTS = "".join(_product(left) for _, left in zip(range(PRODUCTS), itertools.cycle(("%r8", "%r10"))))
_FOLD = "".join(
    f"    cvt.rzi.s32.f32 %r11, %f{n};\n    mad.lo.u32 %r7, %r7, {FACTOR}, %r11;\n" for n in range(1, REGISTERS + 1)
)
TENSOR = f"""
.visible .entry gpu_smoke_tensor(.param .u64 data, .param .u64 places, .param .u32 turns)
{{
    .reg .pred %again;
    .reg .b16 %h<2>;
    .reg .b32 %r<15>;
    .reg .f32 %f<5>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [data];
    ld.param.u64 %d2, [places];
    ld.param.u32 %r1, [turns];
{OWN_WORD}    shr.u32 %r6, %r4, 5;
    add.u32 %r6, %r6, %r2;
    and.b32 %r6, %r6, {PERIOD - 1};
    mul.lo.u32 %r13, %r6, {SEED};
    and.b32 %r12, %r4, {LANES - 1};
TURN:
    mov.u32 %r6, %r13;
    mov.u32 %r14, ROUNDS;
AGAIN:
    mad.lo.u32 %r6, %r6, {FACTOR}, {STEP};
    shr.u32 %r8, %r6, {32 - LEFT};
    sub.u32 %r8, %r8, {1 << LEFT - 1};
    cvt.rn.f16.s32 %h1, %r8;
    mov.b32 %r8, {{%h1, %h1}};
    xor.b32 %r10, %r8, {0x80008000};
    shr.u32 %r9, %r6, {ADDED};
    and.b32 %r9, %r9, {(1 << RIGHT) - 1};
    sub.u32 %r9, %r9, {1 << RIGHT - 1};
    cvt.rn.f16.s32 %h1, %r9;
    mov.b32 %r9, {{%h1, %h1}};
    and.b32 %r11, %r6, {(1 << ADDED) - 1};
    add.u32 %r11, %r11, %r12;
    cvt.rn.f32.u32 %f1, %r11;
    add.rn.f32 %f2, %f1, 0f3F800000;
    add.rn.f32 %f3, %f2, 0f3F800000;
    add.rn.f32 %f4, %f3, 0f3F800000;
{_PRODUCTS}{_FOLD}
    sub.u32 %r14, %r14, 1;
    setp.ne.u32 %again, %r14, 0;
    @%again bra AGAIN;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %again, %r1, 0;
    @%again bra TURN;
    st.global.u32 [%d4], %r7;
    st.global.u32 [%d5], %r5;
    ret;
}}
"""


def text(rounds: int = ROUNDS) -> str:
    """Return the text, which is compiled for every GPU since Turing; a turn has so many rounds."""
    return head(VERSION, TARGET) + TENSOR.replace("ROUNDS", str(rounds))


def series(factor: int, count: int) -> tuple[int, int]:
    """Return ``factor ** count`` and the sum of all powers below it, in 32 bits."""
    power, total = 1, 0
    for _ in range(count):
        power, total = power * factor & WORD, (total * factor + 1) & WORD
    return power, total


def _warp(number: int, rounds: int) -> int:
    """Return what a warp adds to 0 in all rounds, without what its threads add of their own."""
    power, total = series(FACTOR, REGISTERS)
    own = sum(n * series(FACTOR, REGISTERS - 1 - n)[0] for n in range(REGISTERS))
    state, found = number * SEED & WORD, 0
    for _ in range(rounds):
        state = (state * FACTOR + STEP) & WORD
        left, right = (state >> 32 - LEFT) - (1 << LEFT - 1), (state >> ADDED & (1 << RIGHT) - 1) - (1 << RIGHT - 1)
        value = DEPTH * left * right + (state & (1 << ADDED) - 1)
        found = (found * power + value * total + own) & WORD
    return found


@functools.lru_cache(maxsize=2)
def warps(rounds: int = ROUNDS) -> tuple[int, ...]:
    """Return what each of the ``PERIOD`` different warps adds."""
    return tuple(_warp(number, rounds) for number in range(PERIOD))


@functools.lru_cache(maxsize=2)
def answer(turns: int = TURNS, rounds: int = ROUNDS) -> tuple[bytes, bytes]:
    """Return what ``PERIOD`` blocks are given, and what comes back when each turn goes on with the last one's."""
    factor, lane = series(FACTOR, REGISTERS * rounds)
    power, total = series(factor, turns)
    given = [n * SEED & WORD for n in range(1, THREADS + 1)]
    kept = [power * value + total * lane * (thread % LANES) for thread, value in enumerate(given)]
    added = [total * one for one in warps(rounds)]
    wanted = array("I")
    for block in range(PERIOD):
        wanted.extend(value + added[(block + n // LANES) % PERIOD] & WORD for n, value in enumerate(kept))
    return array("I", given * PERIOD).tobytes(), wanted.tobytes()


def able(capability: tuple[int, int], driver: int) -> bool:
    """Say whether a GPU has this product, and its driver compiles it; a driver that does not tell is tried."""
    return capability >= CAPABILITY and (not driver or driver >= CUDA)
