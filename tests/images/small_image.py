"""A small environment that stands in for an image, with a base, wheels made by hand, and base-install."""

from __future__ import annotations

import base64
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

from tests.shared import ROOT

SOURCE = ROOT / "base-images" / "recipe" / "finish" / "base_install"
PIP_SETTINGS = ROOT / "base-images" / "pip_settings.py"
UV = Path(sys.executable).with_name("uv")
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
sys.path.insert(0, {lib!r})
from pathlib import Path
from base_install.cli import main
main(Path({base!r}))
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, Any]) -> Path:
    """Write a wheel by hand, so that it can hold what a build tool would not write; return its path."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    folder.mkdir(exist_ok=True, parents=True)
    own = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in (files | own).items():
            archive.writestr(member, text)
        lines = [f"{member},{digest(text)},\n" for member, text in (files | own).items()]
        archive.writestr(f"{info}/RECORD", "".join([*lines, f"{info}/RECORD,,\n"]))
    return path


def digest(content: str | bytes) -> str:
    """Return the hash of a file as a wheel records it."""
    data = content.encode() if isinstance(content, str) else content
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


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

    def wheel(self, name: str, version: str = "1.0", **files: str | bytes) -> str:
        """Write a wheel and return its line in a lock; the files are {path: text}."""
        return pin(wheel(self.wheels, name, version, files))

    def install(self, lock: str, carried: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run base-install on a requirements file, with the folder of wheels that the child carries."""
        path = self.folder / "requirements.lock"
        path.write_text(lock)
        return self.run(path, *([carried] if carried else []), **variables)

    def run(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run base-install with the folder of wheels as its only index."""
        program = START.format(lib=str(self.base / "lib"), base=str(self.base))
        variables = {"PIP_FIND_LINKS": str(self.wheels), "PIP_NO_INDEX": "1"} | variables
        variables["PATH"] = f"{UV.parent}:{os.environ['PATH']}"
        command = [self.python, "-IB", "-c", program, *arguments]
        return subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False)

    def tree(self) -> dict[str, str]:
        """Return each file of the environment with its content's checksum."""
        files = (path for path in self.environment.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {
            str(path.relative_to(self.environment)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }


def make_base(folder: Path) -> None:
    """Lay down an environment with the base in it, and what base-install runs with."""
    lib = folder / "base" / "lib"
    shutil.copytree(SOURCE, lib / "base_install", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(PIP_SETTINGS, lib / PIP_SETTINGS.name)
    shutil.copytree(Path(packaging.__file__).parent, lib / "packaging")
    compileall.compile_dir(lib, quiet=2)
    python = ".".join(map(str, sys.version_info[:2]))
    facts = {"name": "torch-cu13", "cuda": "13.0", "python": python}
    (folder / "base" / "image.json").write_text(json.dumps(facts))
    versions = {name: version for name, (version, _) in BASE_PACKAGES.items()}
    (folder / "base" / "constraints.txt").write_text("".join(f"{n}=={v}\n" for n, v in versions.items()))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    found = [wheel(folder / "of-the-base", name, version, files) for name, (version, files) in BASE_PACKAGES.items()]
    options = ["--quiet", "--no-deps", "--no-index", "--no-cache", "--python", folder / "env" / "bin" / "python"]
    subprocess.run([UV, "pip", "install", *options, *found], check=True)
    (folder / "wheels").mkdir()
