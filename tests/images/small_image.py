"""A small environment that stands in for an image, with a base, wheels made by hand, and base-install."""

from __future__ import annotations

import compileall
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import packaging
import pip

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "base-images" / "recipe" / "finish" / "base_install"
CUDA_RUNTIME = "nvidia/cu13/lib/libcudart.so.13"
# What a base image has: files of a framework, of NumPy, of the CUDA runtime, and a program of the framework.
BASE_PACKAGES = {
    "numpy": (
        "2.5.0",
        {"numpy/__init__.py": "base = True\n", "numpy/version.py": "", "shared/__init__.py": "# a namespace\n"},
    ),
    "torch": ("2.15.0", {"torch/__init__.py": "", "torch-2.15.0.data/scripts/torchrun": "#!python\nprint('base')\n"}),
    "nvidia-cuda-runtime": ("13.0.96", {CUDA_RUNTIME: "runtime", "nvidia/cu13/lib/libcublas.so.13": "cublas"}),
}
START = """
import sys
sys.path[:0] = [{lib!r}, *{wheels!r}]
from pathlib import Path
from typing import Any
from base_install.cli import main
{before}
main(Path({base!r}))
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, Any], requires: str = "") -> Path:
    """Write a wheel by hand, so that it can hold what a build tool would not write; return its path."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    folder.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    own = {
        f"{info}/METADATA": metadata + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in (files | own).items():
            archive.writestr(member, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{member},,\n" for member in [*files, *own, f"{info}/RECORD"]))
    return path


def pin(path: Path) -> str:
    """Return the lock's line for a wheel."""
    name, version = path.name.split("-")[:2]
    return f"{name.replace('_', '-')}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


class Bench:
    """An environment with a base in it, a folder of wheels, and the program."""

    def __init__(self, folder: Path, base: Path) -> None:
        self.folder, self.wheels, self.base = folder, folder / "wheels", base
        self.environment = folder / "env"
        self.python = self.environment / "bin" / "python"

    @property
    def site(self) -> Path:
        """The folder of packages."""
        return next(self.environment.glob("lib/python3*/site-packages"))

    def wheel(self, name: str, version: str = "1.0", requires: str = "", **files: str | bytes) -> str:
        """Write a wheel and return its line in a lock; the files are {path: text}."""
        return pin(wheel(self.wheels, name, version, files, requires))

    def install(
        self, lock: str | bytes, before: str = "", carried: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run base-install on a lock; `before` is Python that runs first, as a fault does."""
        path = self.folder / "requirements.lock"
        path.write_bytes(lock.encode() if isinstance(lock, str) else lock)
        command = [*self.command(path, before), *([carried] if carried else [])]
        variables = self.variables() | environment
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    def command(self, lock: Path, before: str = "") -> list[str | Path]:
        """Return how base-install is started on a lock."""
        lib = self.base / "lib"
        program = START.format(
            lib=str(lib), wheels=[str(next(lib.glob("packaging-*.whl")))], base=str(self.base), before=before
        )
        return [self.python, "-IB", "-c", program, lock]

    def variables(self) -> dict[str, str]:
        """Return the environment of a build, whose index is the folder of wheels."""
        return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PATH": os.environ["PATH"]}

    def tree(self) -> dict[str, str]:
        """Return each file of the environment with its content's checksum."""
        files = (path for path in self.environment.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {
            str(path.relative_to(self.environment)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }


def make_base(folder: Path) -> None:
    """Lay down an environment with the base in it, and what base-install runs with.

    pip and packaging are folders with the names of their wheels: from a wheel, each run compiles them again.
    """
    lib = folder / "base" / "lib"
    shutil.copytree(SOURCE, lib / "base_install", ignore=shutil.ignore_patterns("__pycache__"))
    pip_wheel = lib / f"pip-{pip.__version__}-py3-none-any.whl"
    shutil.copytree(Path(pip.__file__).parent, pip_wheel / "pip")
    packaging_wheel = lib / f"packaging-{packaging.__version__}-py3-none-any.whl"
    shutil.copytree(Path(packaging.__file__).parent, packaging_wheel / "packaging")
    compileall.compile_dir(lib, quiet=2)
    facts = {"name": "torch-cu13", "cuda": "13.0"}
    (folder / "base" / "image.json").write_text(json.dumps(facts))
    versions = {name: version for name, (version, _) in BASE_PACKAGES.items()}
    (folder / "base" / "constraints.txt").write_text("".join(f"{n}=={v}\n" for n, v in versions.items()))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    found = [wheel(folder / "of-the-base", name, version, files) for name, (version, files) in BASE_PACKAGES.items()]
    command = [folder / "env" / "bin" / "python", "-I", pip_wheel / "pip"]
    subprocess.run([*command, "install", "--quiet", "--no-deps", "--no-index", *found], check=True)
    (folder / "wheels").mkdir()
