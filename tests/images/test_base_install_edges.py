"""base-install at its edges: equal versions, odd locks, another umask, wheels that lie or meet each other."""

from __future__ import annotations

import os
import subprocess
import threading
import zipfile
from pathlib import Path

import pytest

from tests.sampling import sampled

from .small_image import Bench, pin, wheel
from .test_base_install import HASH, refused

EQUAL = {"longer": "2.5.0.0", "shorter": "2.5", "with a v": "v2.5.0", "with a zero in front": "2.05.0"}


@pytest.mark.parametrize("how", sampled(EQUAL, ["longer"]))
def test_a_version_that_is_equal_is_the_version_of_the_image(bench: Bench, how: str) -> None:
    """As PEP 440 compares: an index, or a lock by hand, may write it another way."""
    done = bench.install(f"numpy=={EQUAL[how]} {HASH}\n")
    assert done.stdout == "base-install: 0 packages installed, 1 were in the image already\n", done.stderr


@pytest.mark.slow
def test_the_same_pin_in_two_forms_and_a_hash_in_capitals(bench: Bench) -> None:
    line = bench.wheel("tool", **{"tool.py": ""})
    digest = line.split("sha256:")[1].strip()
    done = bench.install(line.replace("1.0 ", "1.0.0 ", 1) + line.replace(digest, digest.upper()))
    assert done.returncode == 0, done.stderr
    assert bench.install(line).stdout.startswith("base-install: 0 packages installed")


@pytest.mark.slow
def test_a_lock_may_come_through_a_pipe(bench: Bench) -> None:
    pipe, line = bench.folder / "requirements.lock", bench.wheel("tool", **{"tool.py": ""})
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(line,), daemon=True)
    writer.start()
    done = subprocess.run(bench.command(pipe), env=bench.variables(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_what_is_no_lock_is_said_and_help_is_given(bench: Bench) -> None:
    def run(argument: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(bench.command(Path(argument)), env=bench.variables(), capture_output=True, text=True)

    folder, missing = run(str(bench.folder)), run("/nowhere/requirements.lock")
    assert (folder.returncode, folder.stderr) == (
        2, f"base-install: {bench.folder}: cannot be read as a lock: Is a directory\n",
    )  # fmt: skip
    assert (missing.returncode, "no such file; mount the lock" in missing.stderr) == (2, True)
    told = run("--help")
    assert (told.returncode, told.stdout.splitlines()[0], told.stderr) == (
        0, "Install a child's locked packages on top of the base image, without changing the base.", "",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_do_not_follow_the_builders_umask(bench: Bench, umask: int) -> None:
    """The user of the image reads what root installed, and changes none of it."""
    lock = bench.wheel("tool", **{"tool/__init__.py": "", "tool-1.0.data/scripts/run": "#!python\n"})
    done = bench.install(lock, before=f"import os; os.umask({umask})")
    assert done.returncode == 0, done.stderr
    added = [bench.site / "tool", *(bench.site / "tool").iterdir(), bench.environment / "bin" / "run"]
    modes = {str(path): oct(path.stat().st_mode & 0o777) for path in added}
    assert set(modes.values()) <= {"0o755", "0o644"}, modes


def library(folder: Path, name: str) -> bytes:
    """Return a shared library that gives itself a name."""
    source, made = folder / "empty.c", folder / "made"
    source.write_text("int nothing;\n")
    subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", made, source], check=True)
    return made.read_bytes()


MORE_LIBRARIES = {
    "a static CUDA runtime": ("evil/libcudart_static.a", "brings a second libcudart_static.a"),
    "a static cuBLAS": ("evil/libcublas_static.a", "brings a second libcublas_static.a"),
    "the driver's compiler": ("evil/libnvidia-ptxjitcompiler.so.1", "the driver's libraries come from the node"),
    "the driver with a hash": ("evil.libs/libcuda-1a2b3c4d.so.1", "the driver's libraries come from the node"),
    "the driver without a number": ("evil/libcuda.so", "the driver's libraries come from the node"),
    "a runtime under no library's name": ("evil/cudart.so", "a second libcudart.so.13 (as cudart.so)"),
    "a runtime as data": ("evil/weights.bin", "a second libcudart.so.13 (as weights.bin)"),
}


@pytest.mark.parametrize("case", sampled(MORE_LIBRARIES, ["a static CUDA runtime", "a runtime as data"]))
def test_a_second_cuda_library_is_found_in_any_form(bench: Bench, case: str) -> None:
    member, phrase = MORE_LIBRARIES[case]
    content = library(bench.folder, "libcudart.so.13") if "under" in case or "data" in case else b"!<arch>\n"
    refused(bench, bench.wheel("evil", **{member: content}), 1, "evil: ", phrase)


def linked_to(folder: Path, *sonames: str) -> bytes:
    """Return a shared library that is linked to others."""
    source, made = folder / "user.c", folder / "user"
    source.write_text("int nothing;\n")
    others = [folder / soname for soname in sonames]
    for other in others:
        other.write_bytes(library(folder, other.name))
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", made, source, *others], check=True)
    return made.read_bytes()


def test_a_package_that_is_linked_to_another_cuda_alone_is_refused(bench: Bench) -> None:
    """Nothing could load it: onnxruntime-gpu goes on with the processor then, and says so in a log."""
    other = linked_to(bench.folder, "libc.so.6", "libcublasLt.so.12", "libcudart.so.12")
    lock = bench.wheel(
        "engine", "1.31", **{"engine/cpu.so": linked_to(bench.folder, "libc.so.6"), "engine/gpu.so": other}
    )
    refused(
        bench, lock, 1, "engine: its libraries are linked to libcudart.so.12, of CUDA 12, and the image has CUDA 13"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "sonames", [["libcudart.so.13"], ["libc.so.6"], ["libcudart-1a2b3c4d.so.12"], ["libcudnn.so.9"]]
)
def test_a_package_for_this_cuda_or_for_several_is_taken(bench: Bench, sonames: list[str]) -> None:
    """bitsandbytes brings a library for each CUDA, and loads its own."""
    files = {"engine/own.so": linked_to(bench.folder, *sonames)}
    if "libcudart.so.13" in sonames:
        files["engine/other.so"] = linked_to(bench.folder, "libcudart.so.12")
    done = bench.install(bench.wheel("engine", **files))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_password_in_a_lock_is_not_repeated(bench: Bench) -> None:
    for line in (
        "tool @ https://user:hunter2@example.com/tool-1.0-py3-none-any.whl",
        "git+https://user:hunter2@example.com/x",
    ):
        done = bench.install(f"{line} {HASH}\n")
        assert (done.returncode, "hunter2" in done.stdout + done.stderr) == (1, False), done.stderr


@pytest.mark.slow
def test_a_stub_for_the_linker_is_no_driver(bench: Bench) -> None:
    done = bench.install(bench.wheel("compiler", **{"compiler/lib/stubs/libcuda.so": ""}))
    assert done.returncode == 0, done.stderr


def test_a_wheel_may_not_claim_a_file_of_the_image(bench: Bench) -> None:
    """Its list of files decides what goes when another version comes: numpy would be gone, and nobody would say so."""
    for row in ("numpy/__init__.py", "../../../pyvenv.cfg"):
        path = wheel(bench.wheels, "tool", "1.0", {"tool.py": ""})
        with zipfile.ZipFile(path) as read:
            held = {member: read.read(member) for member in read.namelist()}
        held["tool-1.0.dist-info/RECORD"] += f"{row},,\n".encode()
        with zipfile.ZipFile(path, "w") as written:
            for member, content in held.items():
                written.writestr(member, content)
        refused(bench, pin(path), 1, f"tool: its RECORD claims {row}, a file of the image")


@pytest.mark.slow
def test_two_packages_that_bring_one_file_are_told(bench: Bench) -> None:
    """pip lets one of them win in silence, as with two builds of OpenCV."""
    entry = "{}-1.0.dist-info/entry_points.txt"
    lock = "".join(
        bench.wheel(name, **{"common.py": name, "same.py": "", entry.format(name): "[console_scripts]\nrun = same:f\n"})
        for name in ("one", "two")
    )
    done = bench.install(lock)
    assert done.returncode == 0, done.stderr
    notes = sorted(line.split("both bring ")[1] for line in done.stderr.splitlines() if line.startswith("note: "))
    site = bench.site.relative_to(bench.environment)
    assert notes == ["bin/run: one of them is lost", f"{site}/common.py: one of them is lost"]


@pytest.mark.slow
def test_a_wheel_that_needs_more_memory_than_there_is_is_one_line(bench: Bench) -> None:
    path = wheel(bench.wheels, "tool", "1.0", {"tool.py": ""})
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("tool/liblarge.so", "w", force_zip64=True) as member,
    ):
        member.write(b"\x7fELF")
        for _ in range(400):
            member.write(bytes(1 << 20))
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))"
    before = bench.tree()
    done = bench.install(pin(path), before=limit)
    assert (done.returncode, "Traceback" in done.stderr, bench.tree() == before) == (3, False, True), done.stderr
    assert "it cannot be read as a wheel: " in done.stderr.splitlines()[-1]
