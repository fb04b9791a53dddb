"""What computes on the GPU: the PTX texts by a reader of PTX, and faults of memory and multiprocessors on the fakes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from array import array

import pytest
from gpu_smoke.layers import kernel_text
from ptx_reader import Program
from smoke_machine import HERE, Machine

DATA, PLACES, TOLD = 1 << 20, 2 << 20, 3 << 20


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


@pytest.mark.parametrize("flip", [0, kernel_text.WORD])
def test_patterns_are_written_and_checked(flip: int) -> None:
    words, seed = 50, 40503
    text = kernel_text.universal(kernel_text.PATTERNS + kernel_text.PRODUCT)
    memory: dict[int, int | float] = {TOLD: 0, TOLD + 4: kernel_text.WORD, TOLD + 8: 0}
    places = [thread(number, 8, block, 2) for block in (0, 1) for number in range(8)]
    for place in places:
        Program(text, "gpu_smoke_fill").run(memory, place, DATA, words, seed, flip)
    have = [memory.get(DATA + 4 * n) for n in range(words + 1)]
    assert have == [*kernel_text.pattern(words, seed, flip), None]

    def check() -> list[int | float]:
        for place in places:
            Program(text, "gpu_smoke_check").run(memory, place, DATA, words, seed, flip, TOLD)
        return [memory[TOLD + 4 * n] for n in range(3)]

    assert check() == [0, kernel_text.WORD, 0], "right words are called wrong"
    memory[DATA + 4 * 31] = int(memory[DATA + 4 * 31]) ^ 0x10
    memory[DATA + 4 * 40] = int(memory[DATA + 4 * 40]) ^ 0x400
    assert check() == [2, 31, 0x410]


def test_product_gives_the_rows_that_python_says() -> None:
    side, text = 16, kernel_text.universal(kernel_text.PATTERNS + kernel_text.PRODUCT)
    program = Program(text, "gpu_smoke_product")
    memory: dict[int, int | float] = {PLACES + (1 << 18) + 4 * n: 0.0 for n in range(side * side)}
    for base, matrix in zip((DATA, PLACES), kernel_text.matrices(side), strict=True):
        memory |= {base + 4 * n: number for n, number in enumerate(array("f", matrix))}
    for _ in range(2):
        for row, number, block in itertools.product(range(side), range(8), range(2)):
            program.run(memory, thread(number, 8, block, 2, row), DATA, PLACES, PLACES + (1 << 18), side)
    wanted = array("f", b"".join(kernel_text.rows(side, 2)) * (side // kernel_text.PERIOD))
    assert [memory[PLACES + (1 << 18) + 4 * n] for n in range(side * side)] == list(wanted)
    assert len(set(wanted)) == kernel_text.PERIOD, "the product is too uniform to tell one place from another"


def test_sums_of_products_stay_exact() -> None:
    from gpu_smoke.layers import thorough

    most = max(abs(left * right) for left in kernel_text.LEFT for right in kernel_text.RIGHT)
    assert most * thorough.MOST_SIDE * thorough.MOST_PRODUCTS < 1 << 24, "a float holds whole numbers below 2 ** 24"


def _many(machine: Machine, layer: str, faults: list[dict[str, int]]) -> list[dict[str, object]]:
    """Probe one layer in one process for each of many faults; return the first device's facts."""
    machine.good()
    env = {**machine.environment(), "MANY": json.dumps(faults)}
    done = subprocess.run([sys.executable, HERE / "probe_many.py", layer], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_stuck_bit_anywhere_in_the_block_is_found(machine: Machine) -> None:
    size = 31 * (1 << 20) // 4
    places = [0, 1, size - 1, (4 << 20) - 1, 4 << 20, *range(12345, size, size // 40)]
    faults = [{"FAKE_STUCK": at, "FAKE_STUCK_BIT": 1 << at % 8} for at in places]
    for fault, facts in zip([{}, *faults], _many(machine, "memory", [{}, *faults]), strict=True):
        wanted = 1 if fault else 0
        assert (facts["rc"], facts["wrong"]) == (0, wanted), f"{fault}: {facts}"


def test_a_wrong_result_of_any_multiprocessor_is_found(machine: Machine) -> None:
    faults = [{"FAKE_BAD_SM": n, "FAKE_BAD_THREAD": n * 31 % kernel_text.THREADS} for n in range(132)]
    good, *bad = _many(machine, "kernels", [{}, *faults])
    assert (good["universal"]["wrong"], good["universal"]["reached"]) == (0, 132)
    for n, facts in enumerate(bad):
        assert facts["universal"]["bad"] == [n], f"multiprocessor {n}: {facts}"


def test_a_multiprocessor_without_work_gets_some(machine: Machine) -> None:
    facts = _many(machine, "kernels", [{"FAKE_SHY_SM": 131}])[0]
    assert (facts["universal"]["reached"], facts["universal"]["wrong"]) == (132, 0), facts
    assert facts["universal"]["count"] == 3 * 132 * kernel_text.BLOCKS_EACH * kernel_text.THREADS


@pytest.mark.parametrize("place", [0, 9_999_999, 26 * (1 << 20) - 1])
def test_a_weak_cell_under_load_is_found(machine: Machine, place: int) -> None:
    result = machine.good().set(WEAK=place, WEAK_FROM=2).run("--require", "gpu", "--thorough", "0.6")
    cause = result.report["cause"]
    assert (result.code, cause["layer"], cause["code"]) == (1, "thorough", "GS716"), result.text
    assert f"the first at {place // 4 * 4:#x}" in cause["evidence"]


def test_a_sound_gpu_passes_the_load(machine: Machine) -> None:
    result = machine.good().set(COUNT=2).run("--require", "gpu", "--thorough", "0.5")
    assert result.code == 0, result.text
    devices = result.report["facts"]["thorough"]["devices"]
    assert all(one["rounds"] >= 2 and one["products"] >= 3 for one in devices), devices
    assert all(one["bytes"] > 0.8 * 31 * (1 << 20) for one in devices), "most of the free memory is tested"


def test_without_the_option_nothing_is_loaded_or_reported(machine: Machine) -> None:
    result = machine.good().run("--require", "gpu")
    assert "thorough" not in {layer["name"] for layer in result.report["layers"]}
