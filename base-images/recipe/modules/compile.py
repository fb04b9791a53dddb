"""Build step: compile the C modules that Triton compiles when it starts, for an image without a compiler.

    compile.py ENVIRONMENT TARGET
ENVIRONMENT is the image's /opt/env. TARGET gets a file for each module, named by the SHA-256 of its source and ".so":
by that name base-cc finds what Triton asks it to compile, whoever asks and wherever Triton keeps its cache.
"""

import hashlib
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

# What Triton passes to its compiler (triton/runtime/build.py); -s leaves out names: the same bytes again. The
# stand-in for the driver has no function, and has to be named as needed all the same.
OPTIONS = ["-O3", "-shared", "-fPIC", "-Wno-psabi", "-s", "-Wl,--no-as-needed"]
MODULES = {"triton/backends/nvidia/driver.c": "triton/backends/nvidia/include"}


def driver_stand_in(folder: Path) -> None:
    """Write a libcuda.so.1 to link with; the real one is the node's."""
    library = ["-shared", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
    subprocess.run(["gcc", *library, "-x", "c", "/dev/null"], check=True)


def compile_module(source: Path, headers: Path, target: Path) -> None:
    """Compile one module to TARGET/SHA256.so."""
    name = f"{hashlib.sha256(source.read_bytes()).hexdigest()}.so"
    with tempfile.TemporaryDirectory() as folder:
        driver_stand_in(Path(folder))
        links = ["-l:libcuda.so.1", f"-L{folder}", f"-I{headers}", f"-I{sysconfig.get_path('include', 'posix_prefix')}"]
        subprocess.run(["gcc", str(source), *OPTIONS, "-o", str(target / name), *links], check=True)


def main() -> None:
    """Compile what the environment holds; one without Triton holds none."""
    environment, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.mkdir(parents=True)
    site = next(environment.glob("lib/python3*/site-packages"))
    for source, headers in MODULES.items():
        if (site / source).exists():
            compile_module(site / source, site / headers, target)


if __name__ == "__main__":
    main()
