"""A probe that dies: by which signal, in which library, and what the machine says of it."""

from __future__ import annotations

import subprocess

import pytest
from gpu_smoke import crash

from tests.gpu_smoke.smoke_machine import Machine
from tests.sampling import sampled

MAPS = """\
7f0000000000-7f0000001000 r--p 00000000 08:01 1 /usr/lib/libfoo.so.1
7f0000001000-7f0000003000 r-xp 00001000 08:01 1 /usr/lib/libfoo.so.1
7f0000004000-7f0000005000 rw-p 00000000 00:00 0
7f0000006000-7f0000007000 r-xp 00000000 08:01 2 /mnt/my libs/lib bar.so (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
"""


def test_regions_of_code() -> None:
    assert crash.code_regions(MAPS) == [
        (0x7F0000001000, 0x7F0000003000, "/usr/lib/libfoo.so.1"),
        (0x7F0000006000, 0x7F0000007000, "/mnt/my libs/lib bar.so (deleted)"),
    ]


@pytest.mark.parametrize(
    "path",
    ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/usr/lib/libstdc++.so.6.0.33",
     "/usr/lib/libffi.so.8.1.2", "/usr/lib/python3.13/lib-dynload/_ctypes.so", "/usr/lib/libpython3.13.so.1.0"],
)  # fmt: skip
def test_common_libraries_are_called_by_others(path: str) -> None:
    assert crash.CALLED.search(path)


@pytest.mark.parametrize(
    "path", ["/usr/lib/libcuda.so.1", "/opt/libcudart.so.13", "/x/libcublas.so.13", "/x/libtorch.so"]
)
def test_the_stacks_own_libraries_are_named(path: str) -> None:
    assert not crash.CALLED.search(path)


@pytest.mark.parametrize(
    ("fault", "signal", "code"),
    [
        ("segv", "SIGSEGV", "GS001"),
        ("abort", "SIGABRT", "GS001"),
        ("ill", "SIGILL", "GS009"),
        ("bus", "SIGBUS", "GS010"),
    ],
)
@pytest.mark.parametrize("place", sampled(["cuInit", "load"], ["cuInit"]))
def test_the_library_of_a_crash_is_named(machine: Machine, fault: str, signal: str, code: str, place: str) -> None:
    result = machine.good().set(FAULT=f"{fault}:{place}").run("--require", "gpu")
    cause = result.report["cause"]
    assert cause["code"] == code, result.text
    assert f"killed by {signal}" in cause["evidence"]
    assert f"it crashed in {machine.home}/driver/libcuda.so.580.65.06" in cause["evidence"], cause["evidence"]


def test_a_dependency_that_crashes_is_named_and_not_who_called_it(machine: Machine) -> None:
    """libcublas calls a function of another library, which dies in the C library."""
    machine.good()
    source, folder = machine.home / "code.c", machine.home / "toolkit"
    options = ["gcc", "-shared", "-fPIC", "-O1", "-o"]
    source.write_text("#include <string.h>\nint helper(char *to) { memset(to, 1, 1 << 20); return to[7]; }\n")
    subprocess.run([*options, folder / "libhelper.so", source], check=True)
    source.write_text(
        "int helper(char *);\nint cublasGetProperty(int which, int *v) { *v = which; return 0; }\n"
        "int cublasCreate_v2(void **h) { *h = 0; return helper((char *)8) + 1; }\n"
    )
    target = folder / "libcublas.so.13"
    target.unlink()
    subprocess.run([*options, target, source, folder / "libhelper.so"], check=True)
    result = machine.run("--require", "gpu")
    assert result.report["cause"]["layer"] == "cublas", result.text
    assert f"it crashed in {folder}/libhelper.so" in result.report["cause"]["evidence"]
    assert f"Replace {folder}/libhelper.so" in result.report["cause"]["fix"]


def test_a_kill_names_the_memory_limit_and_its_counter(machine: Machine) -> None:
    machine.good().set(FAULT="kill:cuInit").file("/sys/fs/cgroup/memory.max", str(512 << 20))
    machine.file("/sys/fs/cgroup/memory.events", "low 0\noom 2\noom_kill 2\n")
    evidence = machine.run("--require", "gpu").report["cause"]["evidence"]
    assert "the memory limit is 512 MiB; it has killed nothing since this began" in evidence


def test_an_illegal_instruction_names_what_the_processor_lacks(machine: Machine) -> None:
    machine.good().set(FAULT="ill:cuInit")
    machine.file("/proc/cpuinfo", "processor : 0\nmodel name : Common KVM processor\nflags : fpu sse sse2 sse4_2 avx\n")
    evidence = machine.run("--require", "gpu").report["cause"]["evidence"]
    assert "Common KVM processor lacks avx2, fma, f16c, bmi2, avx512f" in evidence
