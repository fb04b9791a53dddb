"""What computes on the GPU: the PTX texts by a reader of PTX, and faults of memory and multiprocessors on the fakes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from array import array

import pytest
from gpu_smoke.layers import kernel_text

from tests.gpu_smoke.ptx_reader import Program
from tests.gpu_smoke.smoke_machine import HERE, Machine
from tests.sampling import sampled

DATA, PLACES = 1 << 20, 2 << 20


def thread(number: int, threads: int, block: int = 0, blocks: int = 1, row: int = 0) -> dict[str, int]:
    """Return the special registers of a thread."""
    return {"%tid.x": number, "%ntid.x": threads, "%ctaid.x": block, "%ctaid.y": row, "%nctaid.x": blocks, "%smid": 7}


@pytest.mark.parametrize("rounds", [1, 2, 37])
def test_chain_gives_what_python_says(rounds: int) -> None:
    """The chain of multiplications has a closed form; the way through floats changes nothing."""
    given, wanted = (array("I", part) for part in kernel_text.chain(rounds))
    program = Program(kernel_text.universal(), "gpu_smoke")
    for number, block in itertools.product((0, 1, 511, kernel_text.THREADS - 1), (0, 3)):
        at = block * kernel_text.THREADS + number
        memory: dict[int, int | float] = {DATA + 4 * at: given[number]}
        program.run(memory, thread(number, kernel_text.THREADS, block), DATA, PLACES, rounds)
        assert memory[DATA + 4 * at] == wanted[number], f"thread {number} of block {block}, {rounds} rounds"
        assert memory[PLACES + 4 * at] == 7, f"thread {number} of block {block} writes its multiprocessor elsewhere"


def _many(machine: Machine, layer: str, faults: list[dict[str, int]]) -> list[dict[str, object]]:
    """Probe one layer in one process for each of many faults; return the first device's facts."""
    machine.good()
    env = {**machine.environment(), "MANY": json.dumps(faults)}
    done = subprocess.run([sys.executable, HERE / "probe_many.py", layer], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("places_between", sampled([40, 4], [4]))
def test_a_stuck_bit_anywhere_in_the_block_is_found(machine: Machine, places_between: int) -> None:
    """The edges of the block are among the places."""
    size = 31 * (1 << 20) // 4
    places = [0, 1, size - 1, (4 << 20) - 1, 4 << 20, *range(12345, size, size // places_between)]
    faults = [{"FAKE_STUCK": at, "FAKE_STUCK_BIT": 1 << at % 8} for at in places]
    for fault, facts in zip([{}, *faults], _many(machine, "memory", [{}, *faults]), strict=True):
        wanted = 1 if fault else 0
        assert (facts["rc"], facts["wrong"]) == (0, wanted), f"{fault}: {facts}"


@pytest.mark.parametrize("step", sampled([1, 43], [43]))
def test_a_wrong_result_of_any_multiprocessor_is_found(machine: Machine, step: int) -> None:
    numbers = [*range(0, 131, step), 131]
    faults = [{"FAKE_BAD_SM": n, "FAKE_BAD_THREAD": n * 31 % kernel_text.THREADS} for n in numbers]
    good, *bad = _many(machine, "kernels", [{}, *faults])
    assert (good["universal"]["wrong"], good["universal"]["reached"]) == (0, 132)
    for n, facts in zip(numbers, bad, strict=True):
        assert facts["universal"]["bad"] == [n], f"multiprocessor {n}: {facts}"


def test_a_multiprocessor_without_work_gets_some(machine: Machine) -> None:
    facts = _many(machine, "kernels", [{"FAKE_SHY_SM": 131}])[0]
    assert (facts["universal"]["reached"], facts["universal"]["wrong"]) == (132, 0), facts
    assert facts["universal"]["count"] == 3 * 132 * kernel_text.BLOCKS_EACH * kernel_text.THREADS
