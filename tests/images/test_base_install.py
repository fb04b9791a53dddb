"""What base-install installs and what it rejects, in a small environment that stands in for an image."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import packaging
import pytest
from pip_settings import uv_environment

from .small_image import CUDA_RUNTIME, Bench, wheel

HASH = f"--hash=sha256:{'0' * 64}"


def rejected(done: subprocess.CompletedProcess[str], code: int, *phrases: str) -> None:
    """Assert that base-install ended with a code and one line of its own that contains each phrase."""
    assert done.returncode == code, f"ended with {done.returncode}: {done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("base-install: ")]
    assert len(lines) == 1, done.stderr
    for phrase in phrases:
        assert phrase in lines[0], f"{phrase!r} is missing: {done.stderr}"


def test_packages_are_added_and_the_base_stays(bench: Bench) -> None:
    """A package with a module, a program and data is installed; a second run of the same lock does nothing."""
    before = bench.tree()
    entry = "tool-1.0.dist-info/entry_points.txt"
    lock = bench.wheel(
        "tool",
        **{
            "tool.py": "def main(): print('runs')\n",
            entry: "[console_scripts]\ntool = tool:main\n",
            "tool-1.0.data/data/share/tool.txt": "data",
            "shared/__init__.py": "# a namespace\n",
        },
    )
    done = bench.install(lock)
    assert done.stdout == "base-install: 1 packages installed, 0 were in the image already\n", done.stderr
    after = bench.tree()
    assert {name: after.get(name) for name in before} == before, "a file of the base changed"
    assert {"bin/tool", "share/tool.txt"} <= after.keys()
    assert not list(bench.site.glob("tool-1.0.dist-info/direct_url.json")), "a path of the build is in the image"
    assert subprocess.run([bench.environment / "bin/tool"], capture_output=True, text=True).stdout == "runs\n"
    again = bench.install(lock)
    assert again.stdout.startswith("base-install: 0 packages installed"), again.stderr
    assert bench.tree() == after


def test_another_version_of_an_added_package_replaces_it(bench: Bench) -> None:
    """The lock of the development tools may pin another version of what the first lock added; its files go."""
    assert bench.install(bench.wheel("tool", **{"tool/old.py": "", "tool/__init__.py": "1"})).returncode == 0
    done = bench.install(bench.wheel("tool", "2.0", **{"tool/new.py": "", "tool/__init__.py": "2"}))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (bench.site / "tool").glob("*.py")) == ["__init__.py", "new.py"]


CONFLICTS = {
    f"numpy==1.0 {HASH}": "numpy: the lock has 1.0, the image has 2.5.0",
    f"torch==2.14.0 {HASH}": "torch: the lock has 2.14.0, the image has 2.15.0",
    f"nvidia-cuda-runtime==12.8 {HASH}": "nvidia-cuda-runtime: the lock has 12.8, the image has 13.0.96",
    f"nvidia-cuda-runtime-cu12==12.8 {HASH}": "a second copy of nvidia-cuda-runtime 13.0.96",
    f"cupy-cuda12x==14.0 {HASH}": "cupy-cuda12x 14.0: made for CUDA 12, the image has CUDA 13",
    f"torchvision==0.25+cu128 {HASH}": "torchvision 0.25+cu128: made for CUDA 12",
}


def test_a_lock_that_conflicts_with_the_image_is_rejected_before_anything_is_installed(bench: Bench) -> None:
    before = bench.tree()
    done = bench.install("\n".join(CONFLICTS))
    rejected(done, 1, *CONFLICTS.values(), "scripts/lock", "copier update -d", "BASE_IMAGE")
    assert bench.tree() == before


def test_packages_of_nvidia_that_the_image_does_not_contain_are_accepted(bench: Bench) -> None:
    """As RAPIDS, DALI and FlashInfer need them: a name decides nothing."""
    names = ("nvidia-cufile", "cuda-core", "nvidia-dali-cuda130", "nvidia-cudnn-frontend", "cupy-cuda13x")
    lock = "".join(bench.wheel(name) for name in names) + bench.wheel("vision", "1.0+cu130")
    done = bench.install(lock + f"numpy==2.5 {HASH}\n")  # 2.5 is 2.5.0
    assert done.stdout == "base-install: 6 packages installed, 1 were in the image already\n", done.stderr


LIBRARY = b"\x7fELF\0libcublasLt.so.12\0libcudart.so.12\0libcudart.so.13\0"  # it opens either libcudart
DAMAGE: dict[str, tuple[dict[str, str | bytes], str]] = {
    "a module": ({"numpy/__init__.py": "evil = 1\n"}, "numpy/__init__.py, which belongs to numpy"),
    "a program": ({"evil-1.0.data/scripts/torchrun": "#!python\n"}, "bin/torchrun, which belongs to torch"),
    "the CUDA runtime": ({CUDA_RUNTIME: "other"}, "libcudart.so.13, which belongs to nvidia-cuda-runtime"),
    "a second CUDA runtime": ({"evil/libcudart.so.13": "x"}, "contains libcudart.so.13, which the image has from"),
    "a second cuBLAS": ({"evil.libs/libcublas.so.12": "x"}, "contains libcublas.so.12, which the image has from"),
    "another CUDA": ({"evil/gpu.so": LIBRARY}, "evil is built for CUDA 12, the image has CUDA"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_a_wheel_does_to_the_image_fails_the_build(bench: Bench, case: str) -> None:
    files, phrase = DAMAGE[case]
    rejected(bench.install(bench.wheel("evil", **files)), 1, phrase)


def test_a_library_for_several_cudas_and_a_private_copy_are_accepted(bench: Bench) -> None:
    """bitsandbytes has a library for each CUDA and loads the right one; torchvision has its own libcudart."""
    files = {f"engine/cuda{major}.so": f"\x7fELF\0libcudart.so.{major}\0" for major in (12, 13)}
    done = bench.install(bench.wheel("engine", **files, **{"engine.libs/libcudart-1a2b3c4d.so.13": "x"}))
    assert done.returncode == 0, done.stderr


LOCKS = {
    "two versions": (f"tool==1.0 {HASH}\ntool==2.0 {HASH}\n", 1, "tool has two versions, 1.0 and 2.0"),
    "a range": (f"tool>=1.0 {HASH}\n", 1, "is not a line NAME==VERSION"),
    "an option": ("--index-url https://example.com/simple\n", 1, "is not a line NAME==VERSION"),
    "an address": (f"tool @ https://u:hunter2@example.com/tool-1.0-py3-none-any.whl {HASH}\n", 1, "is not a line"),
    "no hash": ("tool==1.0\n", 1, "has no sha256 hash"),
    "a carried wheel that is not there": (f"tool @ file:wheels/tool-2.0-py3-none-any.whl {HASH}\n", 1, "not exist"),
}


@pytest.mark.parametrize("case", LOCKS)
def test_a_lock_that_is_not_one_is_one_line(bench: Bench, case: str) -> None:
    lock, code, phrase = LOCKS[case]
    done = bench.install(lock)
    rejected(done, code, phrase, "run scripts/lock")
    assert "hunter2" not in done.stdout + done.stderr


def test_another_file_under_the_same_name_is_not_installed(bench: Bench) -> None:
    """The hash of the lock decides."""
    bench.wheel("tool", **{"tool.py": ""})
    rejected(bench.install(f"tool==1.0 {HASH}\n"), 3, "uv could not install the packages")
    assert not (bench.site / "tool.py").exists()


def test_what_base_install_runs_with_is_not_in_the_environment(bench: Bench) -> None:
    """It brings packaging along; a lock that pins the same version still needs it installed."""
    done = bench.install(bench.wheel("packaging", packaging.__version__, **{"packaging/__init__.py": ""}))
    assert done.stdout.startswith("base-install: 1 packages installed"), done.stderr
    assert (bench.site / "packaging").is_dir()


def test_other_platforms_comments_and_continued_lines(bench: Bench) -> None:
    line = bench.wheel("tool").strip().replace(" --hash", " \\\n    --hash")
    done = bench.install(f'# für uns\n--require-hashes\n{line} # via x\nother==1 ; sys_platform == "win32" {HASH}\n')
    assert done.stdout.startswith("base-install: 1 packages installed"), done.stderr


@pytest.mark.parametrize("form", ["runtime[serving] @ file:wheels/", "./wheels/"], ids=["scripts/lock", "uv export"])
def test_a_wheel_that_the_child_carries_is_installed_from_its_folder(bench: Bench, form: str) -> None:
    """The runtime is in the child's wheels/: taken by its hash, although an index has a higher one. An owner's too."""
    carried = bench.folder / "carried"
    path = wheel(carried, "runtime", "1.0", {"runtime.py": "version = 1\n"})
    bench.wheel("runtime", "9.0", **{"runtime.py": "version = 9\n"})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    own = hashlib.sha256(wheel(carried, "mine", "2.0", {"mine.py": ""}).read_bytes()).hexdigest()
    lock = f"{form}{path.name} --hash=sha256:{digest}\n{bench.wheel('tool')}"
    lock += f"mine==2.0 --hash=sha256:{own}\n"
    done = bench.install(lock, carried=carried)
    assert done.returncode == 0, done.stderr
    assert (bench.site / "runtime.py").read_text() == "version = 1\n"
    assert (bench.site / "mine.py").is_file()


def test_settings_cannot_move_the_packages_elsewhere(bench: Bench) -> None:
    elsewhere = str(bench.folder / "elsewhere")
    variables = {"PIP_TARGET": elsewhere, "PIP_PREFIX": elsewhere, "PIP_USER": "1", "UV_PYTHON": "/usr/bin/python3"}
    done = bench.install(bench.wheel("tool", **{"tool.py": ""}), **variables)
    assert done.returncode == 0, done.stderr
    assert (bench.site / "tool.py").is_file()


def test_settings_of_pip_reach_uv(tmp_path: Path) -> None:
    """A company sets pip: a file, then variables; a setting of uv wins."""
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nindex-url = https://u:p%40@a/simple\nextra_index_url = https://b\n  https://c\n")
    found = uv_environment({"PIP_TRUSTED_HOST": "a", "PIP_TARGET": "/x", "UV_INDEX": "https://own"}, [conf])
    assert found == {
        "UV_DEFAULT_INDEX": "https://u:p%40@a/simple",
        "UV_INDEX": "https://own",
        "UV_INSECURE_HOST": "a",
    }
    assert uv_environment({}, [conf])["UV_INDEX"] == "https://b https://c"
