"""The PTX texts that are compiled and run, and what they must answer: plain integer arithmetic in Python.

PTX 4.2 for sm_50 is compiled by every driver and for every GPU since compute capability 5.0.
"""

from __future__ import annotations

import functools
from array import array

# As many threads as every GPU takes in one block, so that few blocks fit on a multiprocessor and all of them take part.
THREADS, BLOCKS_EACH, ROUNDS = 1024, 2, 1024
WORD = 0xFFFFFFFF
FACTOR, SMALL = 1664525, 0xFFFFF
HEAD = ".version {version}\n.target {target}\n.address_size 64\n"
# %r2, %r4 and %r5 are block, thread and multiprocessor, %r7 the thread's word, %d4 and %d5 the addresses.
CHAIN = """
.visible .entry gpu_smoke(.param .u64 data, .param .u64 places, .param .u32 rounds)
{
    .reg .pred %again;
    .reg .b32 %r<10>;
    .reg .f32 %f<3>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [data];
    ld.param.u64 %d2, [places];
    ld.param.u32 %r1, [rounds];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %smid;
    mad.lo.u32 %r6, %r2, %r3, %r4;
    mul.wide.u32 %d3, %r6, 4;
    add.u64 %d4, %d1, %d3;
    add.u64 %d5, %d2, %d3;
    ld.global.u32 %r7, [%d4];
    and.b32 %r8, %r7, 1048575;
    cvt.rn.f32.u32 %f1, %r8;
AGAIN:
    mad.lo.u32 %r7, %r7, 1664525, %r4;
    fma.rn.f32 %f2, %f1, 0f40400000, 0f3F800000;
    sub.rn.f32 %f2, %f2, %f1;
    sub.rn.f32 %f2, %f2, %f1;
    sub.rn.f32 %f1, %f2, 0f3F800000;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %again, %r1, 0;
    @%again bra AGAIN;
    cvt.rzi.u32.f32 %r8, %f1;
    xor.b32 %r7, %r7, %r8;
    st.global.u32 [%d4], %r7;
    st.global.u32 [%d5], %r5;
    ret;
}
"""


def head(version: str, target: str) -> str:
    """Return the first lines of a PTX text."""
    return HEAD.format(version=version, target=target)


def universal() -> str:
    """Return a text that every GPU since compute capability 5.0 and every driver can compile."""
    return head("4.2", "sm_50") + CHAIN


def stamped(version: str) -> str:
    """Return the text stamped with a toolkit's PTX version; CUDA 13 no longer compiles for targets below sm_75."""
    return head(version, "sm_75" if int(version.split(".")[0]) >= 9 else "sm_50") + CHAIN


def ptx_version(cuda: int) -> str:
    """Return the PTX version that a CUDA version (1000 * major + 10 * minor) emits, "" when it is not known.

    From the release history in the PTX ISA: 12.6 repeats 8.5 of 12.5, so later minors of 12 are one behind.
    """
    major, minor = cuda // 1000, cuda % 1000 // 10
    if major == 12 and minor >= 6:
        minor -= 1
    base = {11: 7, 12: 8, 13: 9}.get(major)
    return f"{base}.{minor}" if base else ""


@functools.lru_cache(maxsize=2)
def chain(rounds: int = ROUNDS) -> tuple[bytes, bytes]:
    """Return what each block is given, and what must come back: a chain of multiplications, and an identity in floats.

    ``rounds`` times ``x = FACTOR * x + thread`` is ``FACTOR ** rounds * x + thread * sum(FACTOR ** n)``.
    """
    factor, added = 1, 0
    for _ in range(rounds):
        factor, added = factor * FACTOR & WORD, (added * FACTOR + 1) & WORD
    given = [n * 2654435761 & WORD for n in range(1, THREADS + 1)]
    wanted = [(factor * value + added * thread & WORD) ^ value & SMALL for thread, value in enumerate(given)]
    return array("I", given).tobytes(), array("I", wanted).tobytes()
