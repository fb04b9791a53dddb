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
# Block, thread and multiprocessor in %r2, %r4 and %r5, the thread's word of data in %r7, the addresses in %d4 and %d5.
OWN_WORD = """\
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
"""
CHAIN = f"""
.visible .entry gpu_smoke(.param .u64 data, .param .u64 places, .param .u32 rounds)
{{
    .reg .pred %again;
    .reg .b32 %r<10>;
    .reg .f32 %f<3>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [data];
    ld.param.u64 %d2, [places];
    ld.param.u32 %r1, [rounds];
{OWN_WORD}    and.b32 %r8, %r7, 1048575;
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
}}
"""
# Each word of a block of memory has its own value: a word that answers for another is found too.
VALUE = """
    mad.lo.u32 %r6, %r5, 2654435769, %r2;
    shr.u32 %r7, %r6, 15;
    xor.b32 %r6, %r6, %r7;
    mul.lo.u32 %r6, %r6, 2246822507;
    shr.u32 %r7, %r6, 13;
    xor.b32 %r6, %r6, %r7;
    xor.b32 %r6, %r6, %r3;
    mul.wide.u32 %d3, %r5, 4;
    add.u64 %d3, %d1, %d3;
"""
LOOP = """
    ld.param.u64 %d1, [data];
    ld.param.u32 %r1, [words];
    ld.param.u32 %r2, [seed];
    ld.param.u32 %r3, [flip];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r8, %ctaid.x;
    mov.u32 %r9, %ntid.x;
    mov.u32 %r10, %tid.x;
    mad.lo.u32 %r5, %r8, %r9, %r10;
    mov.u32 %r11, %nctaid.x;
    mul.lo.u32 %r4, %r11, %r9;
"""
REGISTERS = """
    .reg .pred %end, %same;
    .reg .b32 %r<14>;
    .reg .b64 %d<5>;
"""
PATTERNS = f"""
.visible .entry gpu_smoke_fill(.param .u64 data, .param .u32 words, .param .u32 seed, .param .u32 flip)
{{{REGISTERS}{LOOP}
FILL:
    setp.ge.u32 %end, %r5, %r1;
    @%end bra FILLED;
{VALUE}
    st.global.u32 [%d3], %r6;
    add.u32 %r5, %r5, %r4;
    bra FILL;
FILLED:
    ret;
}}
.visible .entry gpu_smoke_check(.param .u64 data, .param .u32 words, .param .u32 seed, .param .u32 flip,
                                .param .u64 told)
{{{REGISTERS}{LOOP}
    ld.param.u64 %d4, [told];
    cvta.to.global.u64 %d4, %d4;
CHECK:
    setp.ge.u32 %end, %r5, %r1;
    @%end bra CHECKED;
{VALUE}
    ld.global.u32 %r12, [%d3];
    setp.eq.u32 %same, %r12, %r6;
    @%same bra NEXT;
    xor.b32 %r12, %r12, %r6;
    red.global.add.u32 [%d4], 1;
    red.global.min.u32 [%d4+4], %r5;
    red.global.or.b32 [%d4+8], %r12;
NEXT:
    add.u32 %r5, %r5, %r4;
    bra CHECK;
CHECKED:
    ret;
}}
"""
PRODUCT = """
.visible .entry gpu_smoke_product(.param .u64 left, .param .u64 right, .param .u64 sum, .param .u32 side)
{
    .reg .pred %again;
    .reg .b32 %r<10>;
    .reg .f32 %f<4>;
    .reg .b64 %d<9>;
    ld.param.u64 %d1, [left];
    ld.param.u64 %d2, [right];
    ld.param.u64 %d3, [sum];
    ld.param.u32 %r1, [side];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    cvta.to.global.u64 %d3, %d3;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r4, %r2, %r3, %r4;
    mov.u32 %r5, %ctaid.y;
    mul.lo.u32 %r6, %r5, %r1;
    mul.wide.u32 %d4, %r6, 4;
    add.u64 %d4, %d1, %d4;
    mul.wide.u32 %d5, %r4, 4;
    add.u64 %d5, %d2, %d5;
    mul.wide.u32 %d6, %r1, 4;
    add.u32 %r7, %r6, %r4;
    mul.wide.u32 %d7, %r7, 4;
    add.u64 %d7, %d3, %d7;
    mov.u32 %r8, %r1;
    ld.global.f32 %f1, [%d7];
MORE:
    ld.global.f32 %f2, [%d4];
    ld.global.f32 %f3, [%d5];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.u64 %d4, %d4, 4;
    add.u64 %d5, %d5, %d6;
    sub.u32 %r8, %r8, 1;
    setp.ne.u32 %again, %r8, 0;
    @%again bra MORE;
    st.global.f32 [%d7], %f1;
    ret;
}
"""


def head(version: str, target: str) -> str:
    """Return the first lines of a PTX text."""
    return HEAD.format(version=version, target=target)


def universal(body: str = CHAIN) -> str:
    """Return a text that every GPU since compute capability 5.0 and every driver can compile."""
    return head("4.2", "sm_50") + body


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


def pattern(words: int, seed: int, flip: int) -> list[int]:
    """Return what the kernel of patterns writes into the first words of a block."""
    found = []
    for n in range(words):
        value = n * 2654435769 + seed & WORD
        value = (value ^ value >> 15) * 2246822507 & WORD
        found.append(value ^ value >> 13 ^ flip)
    return found


# Small numbers that repeat with this period, so that each of the few different sums is known and exact in floats.
PERIOD = 8
LEFT, RIGHT = (1, -2, 3, 0, 2, -1, 1, -3), (-2, 2, -3, -1, -3, 1, 1, 1)


def matrices(side: int) -> tuple[bytes, bytes]:
    """Return two square matrices of small whole numbers."""
    turns = side // PERIOD
    left = [array("f", [LEFT[(row + k) % PERIOD] for k in range(PERIOD)] * turns).tobytes() for row in range(PERIOD)]
    right = [array("f", [RIGHT[(k + col) % PERIOD] for col in range(PERIOD)] * turns).tobytes() for k in range(PERIOD)]
    return b"".join(left) * turns, b"".join(right) * turns


def rows(side: int, products: int) -> list[bytes]:
    """Return the rows of a sum of so many products, by row number modulo ``PERIOD``."""
    turns, found = side // PERIOD, []
    for row in range(PERIOD):
        sums = [
            sum(LEFT[(row + k) % PERIOD] * RIGHT[(k + col) % PERIOD] for k in range(PERIOD)) for col in range(PERIOD)
        ]
        found.append(array("f", [one * turns * products for one in sums] * turns).tobytes())
    return found
