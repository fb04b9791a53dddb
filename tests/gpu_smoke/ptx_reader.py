"""Run the PTX texts of gpu-smoke a thread at a time in Python: what they compute, without a GPU.

Knows the instructions that these texts use and refuses any other. The text may use a name before and after one thread
has ended only through memory, so threads can run one after another.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

WORD, WIDE = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
Value = int | float


def single(value: float) -> float:
    """Round to single precision."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


OPERATIONS: dict[str, Callable[..., Value]] = {
    "mad.lo.u32": lambda a, b, c: a * b + c & WORD,
    "mul.lo.u32": lambda a, b: a * b & WORD,
    "mul.wide.u32": lambda a, b: a * b,
    "add.u32": lambda a, b: a + b & WORD,
    "add.u64": lambda a, b: a + b & WIDE,
    "sub.u32": lambda a, b: a - b & WORD,
    "and.b32": lambda a, b: a & b,
    "xor.b32": lambda a, b: a ^ b,
    "shr.u32": lambda a, b: a >> b,
    "setp.ge.u32": lambda a, b: a >= b,
    "setp.ne.u32": lambda a, b: a != b,
    "setp.eq.u32": lambda a, b: a == b,
    "fma.rn.f32": lambda a, b, c: single(a * b + c),
    "sub.rn.f32": lambda a, b: single(a - b),
    "add.rn.f32": lambda a, b: single(a + b),
    "cvt.rn.f32.u32": single,
    "cvt.rzi.u32.f32": int,
    "cvt.rzi.s32.f32": lambda a: int(a) & WORD,
    "cvt.rn.f16.s32": lambda a: int.from_bytes(struct.pack("<e", (a ^ 1 << 31) - (1 << 31)), "little"),
    "mov.u32": lambda a: a,
    "cvta.to.global.u64": lambda a: a,
}
REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "red.global.add.u32": lambda old, new: old + new & WORD,
    "red.global.min.u32": min,
    "red.global.or.b32": lambda old, new: old | new,
}


PRODUCT = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"


def uniform(words: list[int]) -> float:
    """Return the half that all words consist of; any other product needs to know which thread holds which element."""
    halves = {half for word in words for half in struct.unpack("<2e", word.to_bytes(4, "little"))}
    assert len(halves) == 1, f"the operand is not the same number everywhere: {halves}"
    return halves.pop()


def product(left: list[int], right: list[int], added: list[float]) -> list[float]:
    """Return a thread's part of ``left * right + added``, which holds 16 and 8 rows of 8 equal numbers."""
    one = uniform(left) * uniform(right)
    found = list(added)
    for _ in range(8):
        found = [single(value + one) for value in found]
        assert all(value.is_integer() for value in found), f"not a whole number: {found}"
    return found


class Program:
    """One kernel of a PTX text, over a memory of words by address."""

    def __init__(self, text: str, name: str) -> None:
        body = re.search(rf"\.entry {name}\((.*?)\)\s*{{(.*?)\n}}", text, re.S)
        assert body, f"there is no kernel {name}"
        self.parameters = re.findall(r"\.param \.\w+ (\w+)", body.group(1))
        self.lines: list[str] = []
        self.labels: dict[str, int] = {}
        for line in filter(None, map(str.strip, body.group(2).splitlines())):
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.lines)
            elif not line.startswith(".reg"):
                self.lines.append(line.rstrip(";"))

    def run(self, memory: dict[int, Value], special: dict[str, int], *given: int) -> None:
        """Run one thread; ``special`` are %tid.x and alike."""
        registers: dict[str, Value] = {**special}
        parameters = dict(zip(self.parameters, given, strict=True))

        def value(text: str) -> Value:
            if text.startswith("%"):
                return registers[text]
            return struct.unpack(">f", bytes.fromhex(text[2:]))[0] if text.startswith("0f") else int(text)

        def address(text: str) -> int:
            base, _, offset = text.strip("[]").partition("+")
            return int(registers[base]) + int(offset or 0)

        at = 0
        while True:
            line = self.lines[at]
            at += 1
            guard = re.match(r"@(%\w+) bra (\w+)", line)
            if guard:
                at = self.labels[guard.group(2)] if registers[guard.group(1)] else at
                continue
            operation, _, rest = line.partition(" ")
            operands = [part.strip() for part in rest.split(",")]
            if operation == PRODUCT:
                sums, *groups = (re.findall(r"%\w+", part) for part in re.findall(r"{(.*?)}", rest))
                found = product(*([registers[name] for name in names] for names in groups))
                registers.update(zip(sums, found, strict=True))
                continue
            if operation == "mov.b32" and "{" in rest:
                low, high = (int(value(part.strip("{} "))) for part in operands[1:])
                registers[operands[0]] = high << 16 | low
                continue
            if operation == "ret":
                return
            if operation == "bra":
                at = self.labels[operands[0]]
            elif operation.startswith("ld.param"):
                registers[operands[0]] = parameters[operands[1].strip("[]")]
            elif operation.startswith("ld.global"):
                registers[operands[0]] = memory[address(operands[1])]
            elif operation.startswith("st.global"):
                memory[address(operands[0])] = value(operands[1])
            elif operation in REDUCTIONS:
                place = address(operands[0])
                memory[place] = REDUCTIONS[operation](int(memory[place]), int(value(operands[1])))
            else:
                registers[operands[0]] = OPERATIONS[operation](*map(value, operands[1:]))
