"""What torch.compile needs: Triton's C module, compiled with the image or by a compiler that is here."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu_smoke.smoke_machine import Machine
from tests.sampling import every, sampled

BASE_CC = Path(__file__).resolve().parents[2] / "base-images" / "recipe" / "finish" / "base-cc"
FOUND = {"GS812", "GS813"}
# As Triton's: it needs Python's headers, the folder beside it, and a function of the driver.
SOURCE = (
    '#include <Python.h>\n#include "own.h"\nint cuDriverGetVersion(int *);\n'
    "int own(int *out) { return OWN + cuDriverGetVersion(out); }\n"
)
AN_OLD_LAUNCHER = "mod = compile_module_from_src(src=src, name='__triton_launcher')\n"


def triton(machine: Machine, source: str = SOURCE, driver: str = "") -> Path:
    """Put a stand-in for Triton on Python's path; return its backend's folder."""
    site = machine.home / "site"
    backend = site / "triton" / "backends" / "nvidia"
    (backend / "include").mkdir(parents=True)
    (site / "triton" / "__init__.py").write_text("raise SystemExit('Triton is not imported')\n")
    (backend / "driver.c").write_text(source)
    (backend / "driver.py").write_text(driver)
    (backend / "include" / "own.h").write_text("#define OWN 1\n")
    machine.python_path.append(site)
    return backend


def no_compiler(machine: Machine) -> Path:
    """Leave the machine the programs that base-cc calls, and no compiler; return the folder they are in."""
    programs = machine.home / "bin"
    programs.mkdir()
    for name in ("sh", "cp", "sha256sum"):
        (programs / name).symlink_to(shutil.which(name) or "")
    machine.variables(PATH=str(programs))
    return programs


def own_compiler(machine: Machine, content: bytes = b"") -> Machine:
    """Have the image's base-cc, with its modules in the machine; content: of the module, if not compiled."""
    backend, programs, modules = triton(machine), no_compiler(machine), machine.home / "modules"
    modules.mkdir()
    program = programs / "base-cc"
    program.write_text(BASE_CC.read_text().replace("/opt/base/modules", str(modules)))
    program.chmod(0o755)
    module = modules / f"{hashlib.sha256((backend / 'driver.c').read_bytes()).hexdigest()}.so"
    if content:
        module.write_bytes(content)
    else:
        (machine.home / "m.c").write_text(
            "int cuDriverGetVersion(int *);\nint own(int *o) { return cuDriverGetVersion(o); }\n"
        )
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", module, machine.home / "m.c"], check=True)
    return machine.variables(CC=str(program))


def lost(machine: Machine) -> object:
    triton(machine)
    no_compiler(machine)
    return machine.variables(CC="/usr/local/bin/base-cc")


def nobody_compiles(machine: Machine) -> object:
    triton(machine)
    return no_compiler(machine)


def no_modules(machine: Machine) -> object:
    own_compiler(machine)
    return shutil.rmtree(machine.home / "modules")


def other_triton(machine: Machine) -> object:
    own_compiler(machine)
    source = machine.home / "site" / "triton" / "backends" / "nvidia" / "driver.c"
    return source.write_text(SOURCE + "/* newer */\n")


def no_headers(machine: Machine) -> object:
    return triton(machine, SOURCE.replace("Python.h", "Python-of-nobody.h"))


def per_kernel(machine: Machine) -> object:
    own_compiler(machine)
    return (machine.home / "site/triton/backends/nvidia/driver.py").write_text(AN_OLD_LAUNCHER)


CASES = [
    (lost, "GS812", "CC is '/usr/local/bin/base-cc'", "leave CC=/usr/local/bin/base-cc"),
    (nobody_compiles, "GS812", "neither gcc nor clang", "install gcc and python3-dev"),
    (no_modules, "GS812", "this image has no C compiler", "Build FROM the base image"),
    (other_triton, "GS812", "this image has no C compiler", "Build FROM the base image"),
    (no_headers, "GS812", "Python-of-nobody.h", "python3-dev"),
    (per_kernel, "GS813", "any.c", "devel image"),
]


@pytest.mark.parametrize(
    ("break_it", "code", "seen", "fix"), sampled(CASES, every(3)), ids=lambda value: str(value)[:20]
)
def test_what_stops_torch_compile_is_found_and_torch_passes(
    machine: Machine, break_it: Callable[[Machine], object], code: str, seen: str, fix: str
) -> None:
    break_it(machine.good())
    result = machine.run("--require", "framework", "--framework", "torch")
    assert result.code == 0, f"eager torch computes\n{result.text}"
    assert result.codes() & FOUND == {code}, result.text
    found = result.finding(code)
    assert seen in found["evidence"], found
    assert fix in found["fix"], found
    assert result.layer("framework")["state"] == "pass"
    assert code in result.text, "a person reads of it"


def test_it_is_found_while_the_image_is_built(machine: Machine) -> None:
    """Without a driver: what the module needs of it is not asked."""
    lost(machine.toolkit().image().framework())
    result = machine.run("--mode", "image")
    assert (result.code, result.codes() & FOUND) == (0, {"GS812"}), result.text


@pytest.mark.parametrize("mode", sampled(["image", "node"], ["node"]))
@pytest.mark.parametrize(
    "setup", [own_compiler, triton, lambda m: None], ids=["the-image's", "a-compiler", "no-triton"]
)
def test_a_machine_that_compiles_is_quiet(machine: Machine, setup: Callable[[Machine], object], mode: str) -> None:
    good = machine.good() if mode == "node" else machine.toolkit().image().framework()
    setup(good)
    result = good.run("--mode", mode)
    assert (result.code, result.codes() & FOUND) == (0, set()), result.text


def test_a_module_in_the_cache_is_enough(machine: Machine) -> None:
    lost(machine.good())
    cache = machine.home / "cache" / "KEY"
    cache.mkdir(parents=True)
    (cache / "cuda_utils.cpython-313-x86_64-linux-gnu.so").write_bytes(b"")
    result = machine.variables(TRITON_CACHE_DIR=str(cache.parent)).run()
    assert result.codes() & FOUND == set(), result.text


def test_a_cpu_build_is_not_asked(machine: Machine) -> None:
    lost(machine.good().set(TORCH_CUDA=""))
    assert machine.run("--framework", "torch").codes() & FOUND == set()
