"""Triton starts in an image without a compiler: base-cc hands over the module that was compiled with the image."""

from __future__ import annotations

import base64
import re
import subprocess
from pathlib import Path

import pytest
from image_tools.catalog import FOLDER

from .conftest import Built

PROGRAM = FOLDER / "recipe" / "finish" / "base-cc"
LOAD = "from triton.backends.nvidia.driver import CudaUtils; print(callable(CudaUtils().load_binary))"


def run(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run base-cc with the programs of a folder alone, besides those that it needs."""
    command = ["/bin/sh", str(PROGRAM), *arguments]
    return subprocess.run(command, env={"PATH": path}, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["x.c", "-O3", "-o", "x.so"], ["--version"], ["missing.c", "-o"], []], ids=str)
def test_what_nobody_compiled_is_one_clear_line(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int x;\n")
    (tmp_path / "sha256sum").write_text("#!/bin/sh\necho 0000 $1\n")
    (tmp_path / "sha256sum").chmod(0o755)
    done = run(tmp_path, *arguments, path=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("base-cc: this image has no C compiler")
    assert "install gcc and python3-dev" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x.so").exists()


@pytest.mark.parametrize("name", ["cc", "gcc", "clang"])
def test_a_real_compiler_is_called(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('#!/bin/sh\necho "real: $*"\n')
    (tmp_path / name).chmod(0o755)
    done = run(tmp_path, "a b.c", "-o", "x", path=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "real: a b.c -o x\n")


def stand_in(image: Built, folder: Path) -> None:
    """Write a libcuda.so.1 that has each function of the driver that the image's modules name; all return 0."""
    names: set[str] = set()
    for path in image.run("sh", "-c", "ls /opt/base/modules/*.so").split():
        (folder / "module.so").write_bytes(base64.b64decode(image.run("base64", path)))  # an engine's log is text
        listed = subprocess.run(["nm", "-D", folder / "module.so"], capture_output=True, text=True, check=True).stdout
        names |= set(re.findall(r" U (cu\w+)", listed))
    (folder / "driver.c").write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(names)))
    library = folder / "lib" / "libcuda.so.1"
    library.parent.mkdir()
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, folder / "driver.c"]
    subprocess.run(command, check=True)
    folder.chmod(0o755)


@pytest.mark.images
def test_triton_loads_its_module_without_a_compiler(image: Built, tmp_path: Path) -> None:
    """As any user, on a read-only root, with a stand-in for the driver. A launch is not yet run on a GPU."""
    if image.row["framework"] != "torch":
        assert not image.run("sh", "-c", "ls /opt/base/modules"), f"{image.name}: modules without Triton"
        return
    stand_in(image, tmp_path)
    mounts = {str(tmp_path / "lib"): {"bind": "/usr/local/nvidia/lib", "mode": "ro"}}
    options = {"user": "12345:0", "read_only": True, "tmpfs": {"/tmp": "exec"}, "volumes": mounts}
    environment = {"TRITON_CACHE_DIR": "/tmp/cache"}
    assert image.python(LOAD, environment=environment, **options) == "True", image.name
