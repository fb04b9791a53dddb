"""What computes on the GPU: any multiprocessor and any place of the memory that fails is found."""

from __future__ import annotations

import pytest

from tests.gpu_smoke.smoke_machine import Machine

THREADS, PROCESSORS = 1024, 132  # of a block, of the fake GPU
SIZE = 31 * (1 << 20) // 4  # of the block that is tested in the fake GPU's memory: a quarter of what is free
# The edges of the block and of its parts, and a place within.
PLACES = [0, 1, (4 << 20) - 1, 4 << 20, 12345, SIZE - 1]


@pytest.mark.parametrize("place", PLACES)
def test_a_stuck_bit_anywhere_in_the_block_is_found(machine: Machine, place: int) -> None:
    machine.good().set(STUCK=place, STUCK_BIT=1 << place % 8)
    result = machine.run("--require", "gpu", "--framework", "plain")
    (device,) = result.report["facts"]["memory"]["devices"]
    assert (result.code, device["rc"], device["wrong"]) == (1, 0, 1), result.text


@pytest.mark.parametrize("number", [0, 65, 131])
def test_a_wrong_result_of_any_multiprocessor_is_found(machine: Machine, number: int) -> None:
    machine.good().set(BAD_SM=number, BAD_THREAD=number * 31 % THREADS)
    answer = machine.run("--framework", "plain").report["facts"]["kernels"]["devices"][0]["universal"]
    assert (answer["bad"], answer["reached"]) == ([number], PROCESSORS), answer


def test_a_multiprocessor_without_work_gets_some(machine: Machine) -> None:
    machine.good().set(SHY_SM=131)
    answer = machine.run("--framework", "plain").report["facts"]["kernels"]["devices"][0]["universal"]
    assert (answer["reached"], answer["wrong"]) == (PROCESSORS, 0), answer
    assert answer["count"] == 3 * PROCESSORS * 2 * THREADS, "a launch is two blocks for each; the second is twice that"
