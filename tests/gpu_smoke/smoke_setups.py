"""How each failure is injected: functions that break a pretended machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.gpu_smoke.smoke_machine import MODELS, Machine

GIB = 1 << 30


@dataclass(frozen=True)
class Case:
    """One injected failure. ``number`` is the failure's number in the project's list of common failures, or ""."""

    name: str
    what: str
    setup: Callable[[Machine], object]
    code: str
    layer: str
    fix: str
    number: str = ""
    args: tuple[str, ...] = ("--require", "gpu")
    exit: int = 1
    cause: bool = True


def broken_file(kind: str) -> Callable[[Machine], object]:
    def setup(m: Machine) -> object:
        m.good()
        target = m.home / "driver" / "libcuda.so.1"
        target.unlink()
        return BROKEN[kind](target, m)

    return setup


def compiled(source: str, target: Path, *options: object) -> Path:
    """Compile C to a shared library; return it."""
    text = target.with_suffix(".c")
    text.write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", target, text, *options], check=True)
    return target


def built(m: Machine, missing: bool = False, glibc: str = "") -> Machine:
    """A libcuda that needs a library which is not here, or a symbol version which this C library lacks."""
    name, script = "libnvidia-absent.so.1" if missing else "libc.so.6", m.good().home / "needs.map"
    script.write_text(f"{glibc or 'ABSENT_1'} {{ needed; }};\n")
    options = [f"-Wl,-soname,{name}", f"-Wl,--version-script={script}", "-nostdlib"]
    needed = compiled("int needed(void) { return 0; }", m.home / name, *options)
    target = m.home / "driver" / "libcuda.so.580.65.06"
    target.unlink()
    compiled("int needed(void); int cuInit(void) { return needed(); }", target, needed)
    return m


def refused(message: str, mounts: str = "", **limits: int) -> Callable[[Machine], object]:
    """A libcuda of which the loader says this, on a machine with these mounts."""

    def setup(m: Machine) -> object:
        m.good().set(LOADER=f"libcuda.so.1={message}").limits(**limits)
        return m.file("/proc/self/mountinfo", mounts)

    return setup


def truncate(target: Path, m: Machine) -> object:
    return target.write_bytes(m.fakes["cuda"].read_bytes()[:2000])


def header(target: Path, m: Machine, at: int, value: bytes) -> object:
    """A library whose ELF header has other bytes at an offset."""
    data = m.fakes["cuda"].read_bytes()
    return target.write_bytes(data[:at] + value + data[at + len(value) :])


BROKEN: dict[str, Callable[[Path, Machine], object]] = {
    "empty": lambda target, m: target.write_bytes(b""),
    "directory": lambda target, m: target.mkdir(),
    "truncated": truncate,
    "foreign": lambda target, m: header(target, m, 18, (243).to_bytes(2, "little")),
    "dangling": lambda target, m: target.symlink_to("libcuda.so.570.00"),
    "foreign-name": lambda target, m: target.write_bytes(m.fakes["nvml"].read_bytes()),
}


def gke(m: Machine) -> object:
    m.good().driver(folder="/usr/local/nvidia/lib64", on_path=False)
    (m.home / "driver" / "libcuda.so.1").unlink()
    return m.variables(KUBERNETES_SERVICE_HOST="10.0.0.1")


def stale_cache(m: Machine) -> object:
    m.good().driver(folder="/usr/lib64", on_path=False)
    (m.home / "driver" / "libcuda.so.1").unlink()
    return m.file("/.dockerenv")


def no_libcuda(m: Machine, nvml: bool = False) -> Machine:
    m.good()
    (m.home / "driver" / "libcuda.so.1").unlink()
    if not nvml:
        (m.home / "driver" / "libnvidia-ml.so.1").unlink()
    m.file("/.dockerenv")
    return m


def compat(m: Machine, version: str, rc: int) -> Machine:
    """A cuda-compat folder before the driver's own on the loader's path."""
    m.good().driver(version, folder="/usr/local/cuda-12.8/compat")
    m.path.insert(0, m.path.pop())
    return m.set(CUINIT_RC=rc)


def stubs(m: Machine) -> object:
    m.good().driver(folder="/usr/local/cuda/lib64/stubs")
    m.path.insert(0, m.path.pop())
    return m.set(CUINIT_RC=34)


def without(m: Machine, *nodes: str) -> Machine:
    m.good()
    for node in nodes:
        (m.root / "dev" / node).unlink()
    return m


def shadowed_jitlink(m: Machine) -> object:
    """A cuSPARSE that needs a symbol, and an older nvJitLink without it in front."""
    old, new, soname = m.good().home / "old-cuda", m.home / "toolkit", "libnvJitLink.so.13"
    old.mkdir()
    symbol, named = "int __nvJitLinkAddData_13_0(void)", f"-Wl,-soname,{soname}"
    compiled("int other(void) { return 0; }", old / soname, named)
    right = compiled(symbol + " { return 0; }", new / soname, named)
    needs = f"{symbol}; int cusparseCreate(void) {{ return __nvJitLinkAddData_13_0(); }}"
    compiled(needs, new / "libcusparse.so.12", "-Wl,-z,now", right)
    return m.path.insert(0, old)


def second_copy(m: Machine, soname: str, folder: str = "other") -> object:
    m.good()
    other = m.library("toolkit", m.home / folder, soname, on_path=False)
    return m.variables(FAKE_TORCH_PRELOAD=f"{m.home}/toolkit/{soname.replace('_ops', '')}:{other}")


def own_copy(m: Machine) -> object:
    """A framework that loads its own cuBLAS by path, while the loader finds another by name."""
    return m.good().variables(
        FAKE_TORCH_PRELOAD=str(m.library("toolkit", m.home / "wheel", "libcublas.so.13", on_path=False))
    )


def wheel_only(m: Machine, soname: str) -> object:
    """A library that lies in its wheel's folder and not where the loader looks."""
    m.good()
    folder = m.home / "site" / "nvidia" / "cufft" / "lib"
    folder.mkdir(parents=True)
    (m.home / "toolkit" / soname).rename(folder / soname)
    return m.python_path.append(m.home / "site")


def deleted_copy(m: Machine, soname: str) -> object:
    """A toolkit library that is deleted after the framework has loaded it."""
    copy = m.good().library("toolkit", m.home / "upgraded", soname, on_path=False)
    return m.variables(FAKE_TORCH_PRELOAD=str(copy), FAKE_TORCH_UNLINK="1")


def unset(m: Machine, name: str) -> Machine:
    (m.home / name).unlink()
    return m


def models(m: Machine) -> object:
    return m.good().python_path.append(MODELS)


def model_case(name: str, what: str, model: str, code: str, fix: str) -> Case:
    args = ("--require", "model", "--model", f"smoke_models:{model}")
    return Case(name, what, models, code, "model", fix, args=args)


GIVEN = ("--require", "model", "--model", "smoke_models:Given", "--timeout", "5")


def answers(m: Machine, on_gpu: str) -> object:
    """A model that answers [1.0] on the CPU and an expression of Python on the GPU."""
    models(m)
    return m.variables(GIVEN_CPU="[1.0]", GIVEN_CUDA=on_gpu)


def raising(error: str) -> str:
    """Return an expression that raises an error."""
    return f'exec("raise RuntimeError({error!r})")'


def answer_case(name: str, what: str, on_gpu: str, code: str, fix: str, number: str = "") -> Case:
    return Case(name, what, lambda m: answers(m, on_gpu), code, "model", fix, number, GIVEN)


def bare_docker(m: Machine, where: str) -> object:
    m.good()
    return os.chmod(m.file(f"{where}/docker"), 0o755)


def gone(m: Machine) -> Path:
    target = m.home / "driver" / "libcuda.so.1"
    target.unlink()
    return target


def opens(m: Machine, errno: int, *nodes: str) -> Machine:
    """A good machine where open() of nodes gives an errno."""
    return m.good().set(OPEN=",".join(f"/dev/{node}={errno}" for node in nodes))


def void(value: str) -> Callable[[Machine], object]:
    """A container without nodes whose NVIDIA_VISIBLE_DEVICES asks for none."""
    return lambda m: (
        m.kernel().toolkit().image().framework().variables(NVIDIA_VISIBLE_DEVICES=value).file("/.dockerenv")
    )


def pci(m: Machine, driver: str) -> Machine:
    """A card of NVIDIA on the PCI bus that a kernel module has ("" for none)."""
    folder = "/sys/bus/pci/devices/0000:3b:00.0"
    m.file(f"{folder}/vendor", "0x10de\n")
    card = m.file(f"{folder}/class", "0x030200\n").parent
    if driver:
        (card / "driver").symlink_to(f"../../drivers/{driver}")
    return m


# What torch.compile needs. As Triton's: it needs Python's headers, the folder beside it, and a function of the driver.
BASE_CC = Path(__file__).resolve().parents[2] / "base-images" / "recipe" / "finish" / "base-cc"
SOURCE = (
    '#include <Python.h>\n#include "own.h"\nint cuDriverGetVersion(int *);\n'
    "int own(int *out) { return OWN + cuDriverGetVersion(out); }\n"
)


def triton(m: Machine, source: str = SOURCE, driver: str = "") -> Path:
    """Put a stand-in for Triton on Python's path; return its backend's folder."""
    site = m.home / "site"
    backend = site / "triton" / "backends" / "nvidia"
    (backend / "include").mkdir(parents=True)
    (site / "triton" / "__init__.py").write_text("raise SystemExit('Triton is not imported')\n")
    (backend / "driver.c").write_text(source)
    (backend / "driver.py").write_text(driver)
    (backend / "include" / "own.h").write_text("#define OWN 1\n")
    m.python_path.append(site)
    return backend


def triton_libcuda(m: Machine, listed: str) -> Machine:
    """Triton, and an ldconfig whose list of libraries is given."""
    triton(m.good().variables(FAKE_TORCH_PRELOAD=f"{m.home}/driver/libcuda.so.1"))
    m.file("/sbin/ldconfig", f"#!/bin/sh\necho '{listed}'\n").chmod(0o755)
    return m


def nobody_compiles(m: Machine, cc: str = "") -> Machine:
    """Triton on a machine with the programs that base-cc calls, and no compiler; ``cc`` is what CC says."""
    triton(m)
    (m.home / "bin").mkdir()
    for name in ("sh", "cp", "sha256sum"):
        (m.home / "bin" / name).symlink_to(shutil.which(name) or "")
    return m.variables(PATH=str(m.home / "bin"), **({"CC": cc} if cc else {}))


def base_cc(m: Machine, newer: str = "", driver: str = "") -> Machine:
    """The image's base-cc with the module of Triton's source, to which ``newer`` was then added."""
    nobody_compiles(m, cc=str(m.home / "bin" / "base-cc"))
    (m.home / "modules").mkdir()
    program = m.home / "bin" / "base-cc"
    program.write_text(BASE_CC.read_text().replace("/opt/base/modules", str(m.home / "modules")))
    program.chmod(0o755)
    module = m.home / "modules" / f"{hashlib.sha256(SOURCE.encode()).hexdigest()}.so"
    compiled("int cuDriverGetVersion(int *);\nint own(int *o) { return cuDriverGetVersion(o); }\n", module)
    backend = m.home / "site" / "triton" / "backends" / "nvidia"
    (backend / "driver.c").write_text(SOURCE + newer)
    (backend / "driver.py").write_text(driver)
    return m


def mig(m: Machine, **more: object) -> Machine:
    """A GPU in MIG mode with an instance, whose capability node 66 the kernel module wants."""
    m.good().set(MIG=1, MIG_INSTANCES=1, **more)
    m.file("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "DeviceFileMinor: 66\nDeviceFileMode: 292\n")
    m.file("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access", "DeviceFileMinor: 67\n")
    return m


def wsl(m: Machine) -> Machine:
    """WSL's libcuda.so.1 is a loader, which brings the driver's own from another folder."""
    m.nodes("dxg").toolkit().image().framework().file("/proc/version", "Linux version 5.15.0-microsoft-standard-WSL2")
    m.library("cuda", m.root / "usr/lib/wsl/lib", "libcuda.so.1.1", "libcuda.so.1")
    m.library("nvml", m.root / "usr/lib/wsl/lib", "libnvidia-ml.so.1")
    driver = m.library("cuda", m.root / "usr/lib/wsl/drivers/nv_dispi.inf_amd64", "libcuda.so.1.1", on_path=False)
    return m.set(SHM=8 << 30).variables(FAKE_TORCH_PRELOAD=f"{m.root}/usr/lib/wsl/lib/libcuda.so.1:{driver}")


def jetson(m: Machine) -> Machine:
    """Jetson: a folder of nodes, no NVML, no kernel module's version, memory shared with the machine."""
    (m.root / "dev/nvgpu/igpu0").mkdir(parents=True)
    m.driver().toolkit().image().framework().set(INTEGRATED=1, FREE_MIB=900, LEAK=1)
    return m.set(SHM=8 << 30)


TORCH = ("--require", "framework", "--framework", "torch")
TENSORFLOW = ("--require", "framework", "--framework", "tensorflow")
JAX = ("--require", "framework", "--framework", "jax")
TF_ROW = {"framework": "tensorflow", "framework_version": "2.21.0", "cuda": "12.9", "driver_min": 525,
          "compute_capabilities": {"sass": ["6.0", "7.0", "8.0", "8.9"], "ptx": ["9.0"]}}  # fmt: skip


def jax(m: Machine) -> Machine:
    """JAX that a child brought to a plain image."""
    return m.good().image(framework="plain", framework_version="")


def tensorflow(m: Machine) -> Machine:
    m.good().toolkit(12).image(**TF_ROW)
    return m.set(RUNTIME_VERSION=12090, CUDNN_CUDART=12090)
