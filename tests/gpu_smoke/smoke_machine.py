"""Build a pretended GPU machine in a folder and run the real program on it."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from gpu_smoke.cli import main

HERE = Path(__file__).parent
PACKAGE_ROOT = HERE.parents[1] / "base-images"
FRAMEWORKS = HERE / "fakes" / "frameworks"
MODELS = HERE / "fakes" / "models"
NVRM = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (builder@host)  Mon Jul 28\n"
TOOLKIT = {
    13: {
        "cudart": "libcudart.so.13", "cublasLt": "libcublasLt.so.13", "cublas": "libcublas.so.13",
        "curand": "libcurand.so.10", "nvjitlink": "libnvJitLink.so.13", "cusparse": "libcusparse.so.12",
        "cusolver": "libcusolver.so.12", "cufft": "libcufft.so.12", "cudnn": "libcudnn.so.9", "nccl": "libnccl.so.2",
    },
    12: {
        "cudart": "libcudart.so.12", "cublasLt": "libcublasLt.so.12", "cublas": "libcublas.so.12",
        "curand": "libcurand.so.10", "nvjitlink": "libnvJitLink.so.12", "cusparse": "libcusparse.so.12",
        "cusolver": "libcusolver.so.11", "cufft": "libcufft.so.11", "cudnn": "libcudnn.so.9", "nccl": "libnccl.so.2",
    },
}  # fmt: skip
CUDA_DRIVERS = yaml.safe_load((PACKAGE_ROOT / "catalog.yml").read_text())["cuda_drivers"]
ROW = {
    "name": "torch-cu13", "framework": "torch", "framework_version": "2.15.0", "python": "3.13", "cuda": "13.0",
    "cudnn": "9.26.0.51", "nccl": "2.30.7", "driver_min": 580, "driver_full": 580, "cuda_drivers": CUDA_DRIVERS,
    "compute_capabilities": {"sass": ["7.5", "8.0", "8.6", "9.0", "10.0", "12.0"], "ptx": ["12.0"]},
}  # fmt: skip
REAL_RUNTIMES = {13: "nvidia/cu13/lib/libcudart.so.13", 12: "nvidia/cuda_runtime/lib/libcudart.so.12"}


def fakes_in(folder: Path) -> dict[str, Path]:
    """Return the stand-ins of the driver and the libraries, by name."""
    return {kind: folder / f"fake_{kind}.so" for kind in ("cuda", "nvml", "toolkit", "files")}


def compile_fakes(folder: Path) -> dict[str, Path]:
    """Compile the stand-ins into a folder; return them by name."""
    built = fakes_in(folder)
    for kind, target in built.items():
        source = HERE / "fakes" / f"fake_{kind}.c"
        options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", target, source, "-ldl", "-lm"]
        subprocess.run(["gcc", *options], check=True)
    return built


def real_runtime(major: int) -> Path:
    """Return NVIDIA's own libcudart of a CUDA major, from the wheels in the development lock."""
    return next(Path(p) / REAL_RUNTIMES[major] for p in sys.path if (Path(p) / REAL_RUNTIMES[major]).is_file())


@dataclass
class Result:
    """What one run of the program gave."""

    code: int
    text: str
    errors: str
    report: dict[str, Any] | None

    def layer(self, name: str) -> dict[str, Any]:
        """Return one layer of the report by its name."""
        assert self.report is not None, f"no report; exit {self.code}\n{self.text}{self.errors}"
        return next(layer for layer in self.report["layers"] if layer["name"] == name)

    def codes(self) -> set[str]:
        """Return every finding code of the report."""
        assert self.report is not None, self.text + self.errors
        return {found["code"] for layer in self.report["layers"] for found in layer["findings"]}

    def finding(self, code: str) -> dict[str, Any]:
        """Return the first finding of a code."""
        assert self.report is not None, self.text + self.errors
        found = [f for layer in self.report["layers"] for f in layer["findings"] if f["code"] == code]
        assert found, f"{code} is not among {sorted(self.codes())}\n{self.text}"
        return found[0]


@dataclass
class Machine:
    """A pretended machine: ``root`` holds /dev, /proc and the rest; ``path`` is LD_LIBRARY_PATH."""

    home: Path
    fakes: dict[str, Path]
    env: dict[str, str] = field(default_factory=dict)
    path: list[Path] = field(default_factory=list)
    python_path: list[Path] = field(default_factory=list)
    preload: bool = False
    address_space: int = 0

    @property
    def root(self) -> Path:
        """The folder that stands for / of the machine."""
        return self.home / "root"

    @property
    def row_file(self) -> Path:
        """Where the image's description lies."""
        return self.home / "image.json"

    def file(self, absolute: str, text: str = "") -> Path:
        """Write a file of the machine."""
        target = self.root / absolute.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def nodes(self, *names: str) -> Machine:
        """Make device nodes (plain files: they open as real ones do)."""
        for name in names or ("nvidiactl", "nvidia-uvm", "nvidia0"):
            self.file(f"/dev/{name}")
        return self

    def kernel(self, version: str = "580.65.06") -> Machine:
        """Load the kernel module."""
        self.file("/proc/driver/nvidia/version", NVRM.format(version))
        return self

    def library(self, kind: str, folder: Path, name: str, link: str = "", on_path: bool = True) -> Path:
        """Put a fake library into a folder, with a link of its soname."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.fakes[kind], folder / name)
        if link:
            (folder / link).unlink(missing_ok=True)
            (folder / link).symlink_to(name)
        if on_path and folder not in self.path:
            self.path.append(folder)
        return folder / name

    def driver(self, version: str = "580.65.06", folder: str = "", on_path: bool = True) -> Machine:
        """Put libcuda of a version into a folder of the machine (default: the one on the loader's path)."""
        place = self.root / folder.lstrip("/") if folder else self.home / "driver"
        self.library("cuda", place, f"libcuda.so.{version}", "libcuda.so.1", on_path)
        return self

    def nvml(self, version: str = "580.65.06") -> Machine:
        """Put the management library beside the driver."""
        self.library("nvml", self.home / "driver", f"libnvidia-ml.so.{version}", "libnvidia-ml.so.1")
        return self

    def runtime(self, major: int = 13) -> Machine:
        """Put NVIDIA's real runtime on the loader's path."""
        folder = self.home / f"runtime{major}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(real_runtime(major), folder / REAL_RUNTIMES[major].rsplit("/", 1)[1])
        self.path.append(folder)
        return self

    def toolkit(self, major: int = 13, without: tuple[str, ...] = ()) -> Machine:
        """Put the fake runtime and toolkit libraries on the loader's path."""
        for family, soname in TOOLKIT[major].items():
            if family not in without:
                self.library("toolkit", self.home / "toolkit", soname)
        return self

    def image(self, **changes: Any) -> Machine:
        """Write the image's description."""
        self.row_file.write_text(json.dumps({**ROW, **changes}))
        return self

    def framework(self) -> Machine:
        """Put the fake frameworks on Python's path."""
        self.python_path.append(FRAMEWORKS)
        return self

    def good(self) -> Machine:
        """A machine without a fault: H100, driver 580, CUDA 13.0, an image with torch."""
        return self.nodes().kernel().driver().nvml().toolkit().image().framework().set(SHM=8 << 30)

    def real(self, major: int = 13) -> Machine:
        """A machine with a driver below NVIDIA's real runtime, and no toolkit libraries."""
        version = {13: 13050, 12: 12090}[major]
        return self.nodes().kernel().driver().nvml().runtime(major).set(CUDA_VERSION=version)

    def set(self, **fakes: object) -> Machine:
        """Set FAKE_* variables."""
        self.env.update({f"FAKE_{name}": str(value) for name, value in fakes.items()})
        self.preload = self.preload or bool({"OPEN", "SHM", "LOADER"} & set(fakes))
        (self.root / "dev" / "shm").mkdir(parents=True, exist_ok=True)
        return self

    def limits(self, address_space: int = 0) -> Machine:
        """Limit the addresses of the program in bytes."""
        self.address_space = address_space
        return self

    def variables(self, **values: str) -> Machine:
        """Set environment variables of the machine."""
        self.env.update(values)
        return self

    def environment(self) -> dict[str, str]:
        """Return the whole environment of a run."""
        env = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.home), "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GPU_SMOKE_ROOT": str(self.root), "GPU_SMOKE_IMAGE_JSON": str(self.row_file),
            "PYTHONPATH": ":".join(map(str, [PACKAGE_ROOT, *self.python_path])),
            "LD_LIBRARY_PATH": ":".join(map(str, self.path)),
        }  # fmt: skip
        if self.preload:
            env["LD_PRELOAD"] = str(self.fakes["files"])
        return {**env, **self.env}

    def run(self, *args: str, timeout_s: float = 60) -> Result:
        """Run the program and read its JSON report; without the system's loader cache, so that only the fakes count."""
        self.root.mkdir(parents=True, exist_ok=True)
        out = self.home / "report.json"
        out.unlink(missing_ok=True)
        command = [loader(), "--inhibit-cache", sys.executable, "-m", "gpu_smoke", "--json", str(out), *args]
        if self.address_space:
            command = ["prlimit", f"--as={self.address_space}", *command]
        done = subprocess.run(
            command, env=self.environment(), cwd=self.home, capture_output=True, timeout=timeout_s, check=False
        )
        report = json.loads(out.read_text()) if out.exists() else None
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "replace"), report)


def told(*arguments: str) -> Result:
    """Return what the program says, in this process, to arguments for which it walks no machine."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            code = main([*arguments])
        except SystemExit as ended:  # of argparse
            code = int(ended.code or 0)
    return Result(code, out.getvalue(), errors.getvalue(), None)


def loader() -> str:
    """Return the dynamic loader of this machine's C library."""
    found = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
    return found[os.uname().machine]
