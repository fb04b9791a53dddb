"""What computes on the GPU: the PTX texts by a reader of PTX, and faults of memory and multiprocessors on the fakes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from array import array

import pytest
from gpu_smoke.layers import kernel_text, tensor_text

from tests.gpu_smoke.ptx_reader import Program
from tests.gpu_smoke.smoke_machine import HERE, Machine
from tests.sampling import every, sampled

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


@pytest.mark.parametrize(("turns", "rounds"), [(1, 1), (1, 5), (3, 2)])
def test_tensor_cores_give_what_python_says(turns: int, rounds: int) -> None:
    given, wanted = (array("I", part) for part in tensor_text.answer(turns, rounds))
    program = Program(tensor_text.text(rounds), "gpu_smoke_tensor")
    assert sum("mma.sync" in line for line in program.lines) == tensor_text.PRODUCTS
    for number, block in itertools.product((0, 1, 31, 32, 511, kernel_text.THREADS - 1), (0, 1, 63, 65)):
        at = block * kernel_text.THREADS + number
        same = at % len(given)
        memory: dict[int, int | float] = {DATA + 4 * at: given[same]}
        program.run(memory, thread(number, kernel_text.THREADS, block), DATA, 8 * PLACES, turns)
        assert memory[DATA + 4 * at] == wanted[same], f"thread {number} of block {block}, {turns} x {rounds} rounds"
        assert memory[8 * PLACES + 4 * at] == 7, f"thread {number} of block {block} writes its multiprocessor elsewhere"


def test_operands_of_tensor_cores_are_one_for_a_warp_and_differ_between_warps() -> None:
    """So the answer does not stand on which thread holds which element."""
    text = tensor_text.text(1)
    assert "%r6, %r4, 5;" in text, "the operands start from the number of the warp"
    assert len(set(tensor_text.warps())) == tensor_text.PERIOD, "two warps compute the same"
    program, lanes, words = Program(text, "gpu_smoke_tensor"), (0, 1, 30, 31), []
    for lane in lanes:
        memory: dict[int, int | float] = {DATA + 4 * lane: 0}
        program.run(memory, thread(lane, kernel_text.THREADS), DATA, PLACES, 1)
        words.append(int(memory[DATA + 4 * lane]))
    step = tensor_text.series(tensor_text.FACTOR, tensor_text.REGISTERS)[1]
    assert [word - words[0] & kernel_text.WORD for word in words] == [lane * step & kernel_text.WORD for lane in lanes]


def test_sums_of_tensor_cores_stay_exact() -> None:
    most = tensor_text.DEPTH << tensor_text.LEFT - 1 + tensor_text.RIGHT - 1
    assert most + (1 << tensor_text.ADDED) + tensor_text.LANES + tensor_text.REGISTERS < 1 << 24
    assert tensor_text.LEFT - 1 <= 11, "a half holds whole numbers up to 2 ** 11"
    odd = (tensor_text.ROUNDS, tensor_text.PRODUCTS, tensor_text.TURNS)
    assert all(number % 2 for number in odd), "a fault that is the same each time must not add up to nothing"


@pytest.mark.parametrize(
    ("capability", "driver", "able"),
    [((7, 0), 12000, False), ((7, 5), 12000, True), ((6, 1), 12000, False), ((12, 0), 13000, True),
     ((8, 0), 10010, False), ((8, 0), 10020, True), ((8, 0), 0, True)],
)  # fmt: skip
def test_which_gpu_has_this_product(capability: tuple[int, int], driver: int, able: bool) -> None:
    assert tensor_text.able(capability, driver) is able


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


@pytest.mark.slow
def test_wrong_tensor_cores_of_any_multiprocessor_are_found(machine: Machine) -> None:
    faults = [{"FAKE_BAD_TENSOR": n, "FAKE_BAD_THREAD": n * 31 % kernel_text.THREADS} for n in range(132)]
    good, *bad = _many(machine, "kernels", [{}, *faults])
    assert (good["tensor"]["rc"], good["tensor"]["wrong"], good["tensor"]["reached"]) == (0, 0, 132), good
    for n, facts in enumerate(bad):
        assert facts["tensor"]["bad"] == [n], f"multiprocessor {n}: {facts}"
        assert facts["universal"]["wrong"] == 0, f"multiprocessor {n}: {facts}"


def test_wrong_tensor_cores_are_named_with_their_multiprocessor(machine: Machine) -> None:
    cause = machine.good().set(BAD_TENSOR=131).run("--require", "gpu").report["cause"]
    assert (cause["layer"], cause["code"]) == ("kernels", "GS719"), cause
    assert "tensor cores: 2 of " in cause["evidence"], cause["evidence"]
    assert cause["evidence"].endswith("on multiprocessor 131"), cause["evidence"]


@pytest.mark.slow
def test_tensor_cores_that_fail_under_load_are_named(machine: Machine) -> None:
    machine.good().set(BAD_TENSOR=17, BAD_TENSOR_FROM=2)
    cause = machine.run("--require", "gpu", "--thorough", "0.5").report["cause"]
    assert (cause["layer"], cause["code"]) == ("thorough", "GS720"), cause
    assert "on multiprocessor 17;" in cause["evidence"], cause["evidence"]


@pytest.mark.parametrize("variables", sampled([{"CC": "7.0"}, {"CC": "6.1"}], every(2)))
def test_without_tensor_cores_of_this_kind_it_says_so(machine: Machine, variables: dict[str, str]) -> None:
    result = machine.good().set(BAD_TENSOR=3, **variables).run("--require", "gpu", "--thorough", "0.1")
    device = result.report["facts"]["kernels"]["devices"][0]
    assert "tensor" not in device, device
    for layer in ("kernels", "thorough"):
        assert "tensor cores not run on 1 (" in result.layer(layer)["summary"], result.text
    assert "GS719" not in result.text
    assert "GS720" not in result.text


def test_a_multiprocessor_without_work_gets_some(machine: Machine) -> None:
    facts = _many(machine, "kernels", [{"FAKE_SHY_SM": 131}])[0]
    assert (facts["universal"]["reached"], facts["universal"]["wrong"]) == (132, 0), facts
    assert facts["universal"]["count"] == 3 * 132 * kernel_text.BLOCKS_EACH * kernel_text.THREADS


@pytest.mark.parametrize("place", sampled([0, 9_999_999, 26 * (1 << 20) - 1], [0]))
def test_a_weak_cell_under_load_is_found(machine: Machine, place: int) -> None:
    result = machine.good().set(WEAK=place, WEAK_FROM=1).run("--require", "gpu", "--thorough", "1")
    cause = result.report["cause"]
    assert (result.code, cause["layer"], cause["code"]) == (1, "thorough", "GS716"), result.text
    assert f"the first at {place // 4 * 4:#x}" in cause["evidence"]


@pytest.mark.slow
def test_a_sound_gpu_passes_the_load(machine: Machine) -> None:
    result = machine.good().set(COUNT=2).run("--require", "gpu", "--thorough", "0.5")
    assert result.code == 0, result.text
    devices = result.report["facts"]["thorough"]["devices"]
    assert all(one["rounds"] >= 2 and one["products"] >= 3 for one in devices), devices
    assert all(one["bytes"] > 0.8 * 31 * (1 << 20) for one in devices), "most of the free memory is tested"
    assert all(one["tensor_products"] and one["reached"] == 132 for one in devices), devices
    assert "on tensor cores at " in result.layer("thorough")["summary"], result.text


def test_without_the_option_nothing_is_loaded_or_reported(machine: Machine) -> None:
    result = machine.good().run("--require", "gpu")
    assert "thorough" not in {layer["name"] for layer in result.report["layers"]}
