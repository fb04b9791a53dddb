"""Run the PTX texts of gpu-smoke a thread at a time in Python: what they compute, without a GPU.

Knows the instructions that these texts use and refuses any other. Threads share nothing but memory, so they can run one
after another.
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
    "mul.wide.u32": lambda a, b: a * b,
    "add.u64": lambda a, b: a + b & WIDE,
    "sub.u32": lambda a, b: a - b & WORD,
    "and.b32": lambda a, b: a & b,
    "xor.b32": lambda a, b: a ^ b,
    "setp.ne.u32": lambda a, b: a != b,
    "fma.rn.f32": lambda a, b, c: single(a * b + c),
    "sub.rn.f32": lambda a, b: single(a - b),
    "cvt.rn.f32.u32": single,
    "cvt.rzi.u32.f32": int,
    "mov.u32": lambda a: a,
    "cvta.to.global.u64": lambda a: a,
}


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
            if operation == "ret":
                return
            if operation.startswith("ld.param"):
                registers[operands[0]] = parameters[operands[1].strip("[]")]
            elif operation.startswith("ld.global"):
                registers[operands[0]] = memory[address(operands[1])]
            elif operation.startswith("st.global"):
                memory[address(operands[0])] = value(operands[1])
            else:
                registers[operands[0]] = OPERATIONS[operation](*map(value, operands[1:]))
