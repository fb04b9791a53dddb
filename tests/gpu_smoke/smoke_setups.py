"""How each failure is injected: functions that break a pretended machine."""

from __future__ import annotations

import os
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


def built(m: Machine, missing: bool = False, glibc: str = "") -> Machine:
    """A libcuda that needs a library which is not here, or a symbol version which this C library lacks."""
    m.good()
    folder, source, script = m.home / "driver", m.home / "needs.c", m.home / "needs.map"
    name = "libnvidia-absent.so.1" if missing else "libc.so.6"
    source.write_text("int needed(void) { return 0; }\n")
    script.write_text(f"{glibc or 'ABSENT_1'} {{ needed; }};\n")
    options = [f"-Wl,-soname,{name}", f"-Wl,--version-script={script}", "-nostdlib", "-o", m.home / name]
    subprocess.run(["gcc", "-shared", "-fPIC", *options, source], check=True)
    source.write_text("int needed(void); int cuInit(void) { return needed(); }\n")
    target = folder / "libcuda.so.580.65.06"
    target.unlink()
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", target, source, m.home / name], check=True)
    return m


def truncate(target: Path, m: Machine) -> object:
    return target.write_bytes(m.fakes["cuda"].read_bytes()[:2000])


def foreign(target: Path, m: Machine) -> object:
    data = bytearray(m.fakes["cuda"].read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    return target.write_bytes(data)


BROKEN: dict[str, Callable[[Path, Machine], object]] = {
    "empty": lambda target, m: target.write_bytes(b""),
    "directory": lambda target, m: target.mkdir(),
    "truncated": truncate,
    "text": lambda target, m: target.write_text("version https://git-lfs.github.com/spec/v1\n" * 9),
    "foreign": foreign,
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


def compat(m: Machine, version: str, rc: int) -> object:
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
    m.good()
    old, source = m.home / "old-cuda", m.home / "sparse.c"
    old.mkdir()
    new = m.home / "toolkit"
    for folder, text in (
        (new, "int __nvJitLinkAddData_13_0(void) { return 0; }"),
        (old, "int other(void) { return 0; }"),
    ):
        source.write_text(text)
        soname = "libnvJitLink.so.13"
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", folder / soname, source]
        subprocess.run(command, check=True)
    source.write_text(
        "int __nvJitLinkAddData_13_0(void); int cusparseCreate(void) { return __nvJitLinkAddData_13_0(); }"
    )
    link = [
        "gcc",
        "-shared",
        "-fPIC",
        "-Wl,-z,now",
        "-o",
        new / "libcusparse.so.12",
        source,
        new / "libnvJitLink.so.13",
    ]
    subprocess.run(link, check=True)
    m.path.insert(0, old)
    return m


def second_copy(m: Machine, soname: str, kind: str = "toolkit") -> object:
    m.good()
    other = m.library(kind, m.home / "other", soname, on_path=False)
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


def model_case(name: str, what: str, model: str, code: str, fix: str, number: str = "") -> Case:
    args = ("--require", "model", "--model", f"smoke_models:{model}", "--timeout", "3" if model == "Hangs" else "30")
    return Case(name, what, models, code, "model", fix, number, args)


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
