"""What base-install installs and what it refuses, in a small environment that stands in for an image."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sampling import every, sampled

from .small_image import CUDA_RUNTIME, Bench, pin, wheel


def refused(bench: Bench, lock: str | bytes, code: int, *phrases: str, **environment: str) -> None:
    """Assert that the lock is refused in one line that says each phrase, and that nothing changed."""
    before = bench.tree()
    done = bench.install(lock, **environment)
    assert done.returncode == code, f"ended with {done.returncode}: {done.stderr}"
    for phrase in phrases:
        assert phrase in done.stderr, f"does not say {phrase!r}: {done.stderr}"
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("base-install:")]) == 1, done.stderr
    assert bench.tree() == before, "a refused lock changed the environment"


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
    assert (done.returncode, done.stdout) == (0, "base-install: 1 packages installed, 0 were in the image already\n"), (
        done.stderr
    )
    after = bench.tree()
    assert {name: after.get(name) for name in before} == before, "a file of the base changed"
    assert {"bin/tool", "share/tool.txt"} <= after.keys()
    assert not (bench.environment / ".base-install").exists(), "the working folder is left"
    assert subprocess.run([bench.environment / "bin/tool"], capture_output=True, text=True).stdout == "runs\n"
    again = bench.install(lock)
    assert again.stdout.startswith("base-install: 0 packages installed"), again.stderr
    assert bench.tree() == after


@pytest.mark.slow
def test_another_version_of_an_added_package_replaces_it(bench: Bench) -> None:
    """The lock of the development tools may pin another version of what the first lock added; its files go."""
    assert bench.install(bench.wheel("tool", **{"tool/old.py": "", "tool/__init__.py": "1"})).returncode == 0
    done = bench.install(bench.wheel("tool", "2.0", **{"tool/new.py": "", "tool/__init__.py": "2"}))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (bench.site / "tool").glob("*.py")) == ["__init__.py", "new.py"]
    assert not (bench.site / "tool-1.0.dist-info").exists()


def cached(folder: Path) -> str:
    """Return the Python that gives base-install a cache which stays between builds."""
    return (
        f"import os, base_install.cli; base_install.cli.CACHE = Path({str(folder)!r}); os.path.ismount = lambda _: True"
    )


@pytest.mark.slow
def test_what_a_build_downloaded_needs_no_index_again(bench: Bench, tmp_path: Path) -> None:
    before, lock = cached(tmp_path / "cache"), bench.wheel("tool", **{"tool.py": "kept = 1\n"})
    assert bench.install(lock, before=before).returncode == 0
    installed = bench.tree()
    for name in [name for name in installed if "tool" in name]:
        (bench.environment / name).unlink()
    shutil.rmtree(bench.site / "tool-1.0.dist-info")
    refused(bench, lock, 3, "pip could not get the packages", PIP_FIND_LINKS="")
    done = bench.install(lock, before=before, PIP_FIND_LINKS="")
    assert done.returncode == 0, done.stderr
    assert bench.tree() == installed


@pytest.mark.slow
@pytest.mark.parametrize("harm", sampled(["another wheel", "cut", "a folder", "read-only"], ["cut"]))
def test_a_harmed_cache_is_as_good_as_none(bench: Bench, tmp_path: Path, harm: str) -> None:
    lock, cache = bench.wheel("tool", **{"tool.py": "right = 1\n"}), tmp_path / "cache"
    bench.wheel("other", **{"tool.py": "wrong = 1\n"})
    if harm == "read-only":
        cache.write_text("no folder can be made in a file")
    else:
        assert bench.install(lock, before=cached(cache)).returncode == 0
        [kept] = cache.glob("wheels/*/*/tool-1.0*.whl")
        if harm == "another wheel":
            shutil.copyfile(next(bench.wheels.glob("other-*.whl")), kept)
        elif harm == "cut":
            kept.write_bytes(kept.read_bytes()[:99])
        else:
            kept.unlink()
            kept.mkdir()
        assert bench.install(bench.wheel("tool", "0.5"), before=cached(cache)).returncode == 0
    done = bench.install(lock, before=cached(cache))
    assert done.returncode == 0, done.stderr
    assert (bench.site / "tool.py").read_text() == "right = 1\n"


CLASHES = {
    "a module of the base": ({"numpy/__init__.py": "evil = 1\n"}, "numpy/__init__.py would replace one of the image"),
    "the CUDA runtime": ({CUDA_RUNTIME: "other"}, "libcudart.so.13 would replace"),
    "the settings of the environment": ({"evil-1.0.data/data/pyvenv.cfg": "home = /"}, "pyvenv.cfg would replace"),
    "a second CUDA runtime": ({"evil/libcudart.so.13": ""}, "brings a second libcudart.so.13"),
    "another CUDA's runtime": ({"evil.libs/libcudart-1a2b3c4d.so.12.9": ""}, "brings a second libcudart-1a2b3c4d"),
    "a second cuBLAS": ({"evil.libs/libcublas.so.12": ""}, "brings a second libcublas.so.12"),
    "a program of the base": ({"evil-1.0.data/scripts/torchrun": "#!python\n"}, "program torchrun would run in place"),
    "the interpreter": (
        {"evil-1.0.dist-info/entry_points.txt": "[console_scripts]\npython = evil:main\n"},
        "program python would run in place",
    ),
    "a program of the system": (
        {"evil-1.0.dist-info/entry_points.txt": "[gui_scripts]\nldconfig = evil:main\n"},
        "program ldconfig would run in place",
    ),
    "a place outside": ({"../../../../outside.py": ""}, "outside the environment"),
    "a program outside": (
        {"evil-1.0.dist-info/entry_points.txt": "[console_scripts]\n../../x = evil:main\n"},
        "outside the environment",
    ),
    "a framework under another name": ({"tensorflow/__init__.py": ""}, "it holds tensorflow"),
    "a file where the base has a folder": ({"torch": ""}, "torch would replace one of the image"),
    "a framework as one module": ({"triton.py": ""}, "it holds triton"),
    "a framework by another way": ({"evil-1.0.data/purelib/triton/__init__.py": ""}, "it holds triton"),
    "a package before a module": (
        {"numpy/version/__init__.py": ""},
        "the same module as numpy/version.py of the image",
    ),
    "a compiled module before a source": (
        {"numpy/__init__.abi3.so": ""},
        "its numpy/__init__.abi3.so is the same module as numpy/__init__.py",
    ),
    "a module before a namespace": ({"nvidia.py": ""}, "its nvidia.py is the same module as nvidia of the image"),
    "what another package is": (
        {"evil-1.0.data/purelib/numpy-99.dist-info/METADATA": "Name: numpy\n"},
        "it holds numpy-99.dist-info, which says what another package is",
    ),
    "where base-install works": ({"evil-1.0.data/data/.base-install/journal.json": "[]"}, "outside the environment"),
    "the driver": ({"evil/libcuda.so.1": ""}, "it brings libcuda.so.1 as libcuda.so.1, and the driver's libraries"),
    "a folder where the base has a file": ({"numpy/__init__.py/x.py": ""}, "would replace one of the image"),
}


@pytest.mark.parametrize("harm", ["its programs", "its bytes"])
def test_a_wheel_that_cannot_be_read_is_one_line(bench: Bench, harm: str) -> None:
    files = {"evil.py": "x = 1\n"}
    if harm == "its programs":
        files["evil-1.0.dist-info/entry_points.txt"] = "[console_scripts\n= :::"
    lock = bench.wheel("evil", **files, **{"evil/libevil.so": "library"})
    if harm == "its bytes":
        path = next(bench.wheels.glob("evil-*.whl"))
        path.write_bytes(path.read_bytes().replace(b"library", b"ilbrary"))
        lock = pin(path)
    refused(bench, lock, 3, "evil-1.0-py3-none-any.whl: its hash is right, but it cannot be read as a wheel")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("libcudart.so.13", "a second libcudart.so.13 (as libharmless.so)"),
        ("libnvidia-ml.so.1", "it brings libnvidia-ml.so.1 as libharmless.so"),
    ],
)
def test_a_library_is_known_by_the_name_that_it_gives_itself(bench: Bench, name: str, phrase: str) -> None:
    source, library = bench.folder / "empty.c", bench.folder / "libharmless.so"
    source.write_text("int nothing;\n")
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    refused(bench, bench.wheel("evil", **{"evil/libharmless.so": library.read_bytes()}), 1, phrase)


@pytest.mark.parametrize("case", sampled(CLASHES, every(22)))
def test_what_would_replace_or_hide_the_base_is_refused(bench: Bench, case: str) -> None:
    """A wheel is looked into before it is installed: files, programs and libraries of the base win."""
    files, phrase = CLASHES[case]
    refused(bench, bench.wheel("evil", **files), 1, "evil: ", phrase, "Ways out")


@pytest.mark.slow
def test_a_private_copy_of_the_same_cuda_runtime_is_taken(bench: Bench) -> None:
    """torchvision has a libcudart whose name carries a hash: nothing but its own modules can load that."""
    done = bench.install(bench.wheel("vision", **{"vision.libs/libcudart-1a2b3c4d.so.13.0": ""}))
    assert done.returncode == 0, done.stderr


NAMES = {
    "torch-nightly": "GPU libraries come from the image",
    "pytorch-triton": "GPU libraries come from the image",
    "tensorflow_cpu": "GPU libraries come from the image",
    "tf-nightly": "GPU libraries come from the image",
    "nvidia-npp": "GPU libraries come from the image",
    "cupy_cuda12x": "made for CUDA 12, the image has CUDA 13",
    "jax-cuda12-plugin": "made for CUDA 12",
    "mxnet-cu112": "made for CUDA 11",
}


@pytest.mark.parametrize("name", sampled(NAMES, every(8)))
def test_gpu_packages_are_known_by_all_their_names(bench: Bench, name: str) -> None:
    """A framework or CUDA package under another name is refused before anything is downloaded."""
    refused(bench, f"{name}==1.0 --hash=sha256:{'0' * 64}\n", 1, NAMES[name], "Ways out")


@pytest.mark.slow
def test_a_row_may_take_compilers_and_bindings_of_nvidia(bench: Bench) -> None:
    """By name alone: what is in the image keeps its version, and libraries and files of the image stay refused."""
    base = bench.folder / "base-that-takes"
    shutil.copytree(bench.base, base)
    facts = json.loads((base / "image.json").read_text()) | {
        "takes": ["nvidia-cutlass-dsl*", "nvidia-cudart-extra", "torch"]
    }
    (base / "image.json").write_text(json.dumps(facts))
    takes = Bench(bench.folder, base)
    good, library = (
        takes.wheel("nvidia-cutlass-dsl-libs-cu12"),
        takes.wheel("nvidia-cudart-extra", **{"x/libcudart.so.13": ""}),
    )
    refused(takes, good + library, 1, "a second libcudart.so.13")
    refused(takes, f"nvidia-npp==1.0 --hash=sha256:{'0' * 64}\n", 1, "GPU libraries come from the image")
    refused(takes, f"torch==1.0 --hash=sha256:{'0' * 64}\n", 1, "the image has")
    assert takes.install(good).returncode == 0
    refused(bench, good, 1, "GPU libraries come from the image")


@pytest.mark.slow
def test_packages_for_the_image_s_cuda_are_taken(bench: Bench) -> None:
    """What is made for the image's own CUDA installs, and so does a package with cu in its name."""
    lock = bench.wheel("cupy-cuda13x") + bench.wheel("accumulate") + bench.wheel("vision", "1.0+cu130")
    assert bench.install(lock).returncode == 0


HASH = f"--hash=sha256:{'0' * 64}"
LOCKS: dict[str, tuple[str | bytes, int, str]] = {
    "two pins": (f"tool==1.0 {HASH}\ntool==2.0 {HASH}\n", 1, "tool is pinned twice, to 1.0 and 2.0"),
    "a pattern": (f"tool==1.* {HASH}\n", 1, "not a pattern"),
    "an index": (f"--index-url https://example.com/simple\ntool==1.0 {HASH}\n", 1, "the option --index-url"),
    "another index": (f"--extra-index-url=https://example.com\ntool==1.0 {HASH}\n", 1, "the option --extra-index-url"),
    "another file": ("-r other.txt\n", 1, "the option -r"),
    "an index behind a pin": (f"tool==1.0 {HASH} --index-url https://example.com\n", 1, "cannot read"),
    "an address": (f"tool @ https://example.com/tool-1.0-py3-none-any.whl {HASH}\n", 1, "needs one exact version"),
    "UTF-16": ("tool==1.0\n".encode("utf-16"), 1, "not a text in UTF-8"),
    "latin-1": (f"# für uns\ntool==1.0 {HASH}\n".encode("latin-1"), 1, "not a text in UTF-8"),
    "a short hash": ("tool==1.0 --hash=sha256:abc\n", 1, "sha256 hash"),
    "another hash": ("tool==1.0 --hash=md5:0123456789abcdef0123456789abcdef\n", 1, "sha256 hash"),
    "not there": (f"tool==1.0 {HASH}\n", 3, "pip could not get the packages"),
}


@pytest.mark.parametrize("case", sampled(LOCKS, every(12)))
def test_a_lock_that_is_no_lock_is_refused(bench: Bench, case: str) -> None:
    """One line says what is wrong with it; no traceback, nothing changed, nothing passed over in silence."""
    lock, code, phrase = LOCKS[case]
    refused(bench, lock, code, phrase)


@pytest.mark.slow
def test_comments_continued_lines_and_a_byte_order_mark_are_read(bench: Bench) -> None:
    """What editors and other tools write into a lock is not an error."""
    line = bench.wheel("tool").strip().replace(" --hash", " \\\r\n    --hash")
    done = bench.install(f"\ufeff# für uns\r\n--require-hashes\r\n{line} # via nothing\r\n{line} \\")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_variables_that_lead_pip_elsewhere_count_for_nothing(bench: Bench) -> None:
    """A person's settings for pip never move the packages out of the environment."""
    elsewhere = dict.fromkeys(("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"), str(bench.folder / "elsewhere"))
    lock = bench.wheel("tool", **{"tool.py": ""})
    done = bench.install(lock, **elsewhere, PIP_USER="1", PIP_DRY_RUN="1")
    assert done.returncode == 0, done.stderr
    assert (bench.site / "tool.py").is_file()
    assert not (bench.folder / "elsewhere").exists()


@pytest.mark.slow
def test_a_configuration_does_not_lead_pip_elsewhere(bench: Bench) -> None:
    """A pip.conf may name the index; where packages go and how is not its to say."""
    configuration = bench.folder / "pip.conf"
    configuration.write_text(f"[install]\nprefix = {bench.folder}/elsewhere\nno-compile = true\n")
    done = bench.install(bench.wheel("tool", **{"tool.py": ""}), PIP_CONFIG_FILE=str(configuration))
    assert done.returncode == 0, done.stderr
    assert (bench.site / "tool.py").exists()
    assert not (bench.folder / "elsewhere").exists()
    assert not (bench.site / "tool-1.0.dist-info" / "direct_url.json").exists(), "a path of the build is in the image"


@pytest.mark.slow
def test_a_package_without_what_it_needs_leaves_nothing(bench: Bench) -> None:
    """The check of the whole environment comes before the installation is final."""
    lock = bench.wheel("tool", requires="missing>=1", **{"tool.py": ""})
    refused(bench, lock, 3, "packages miss what they need", "missing")


def test_a_wheel_that_the_child_carries_is_installed_from_its_folder(bench: Bench) -> None:
    """The runtime lies in the child's wheels/: taken by its hash, also where an index has a higher version of it."""
    carried = bench.folder / "carried"
    path = wheel(carried, "runtime", "1.0", {"runtime.py": "version = 1\n"})
    bench.wheel("runtime", "9.0", **{"runtime.py": "version = 9\n"})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    done = bench.install(f"runtime @ file:wheels/{path.name} --hash=sha256:{digest}\n", carried=carried)
    assert done.returncode == 0, done.stderr
    assert (bench.site / "runtime.py").read_text() == "version = 1\n"


CARRIED = {
    "a lock that does not name it": ("", 1, "does not name wheels/runtime-1.0-py3-none-any.whl"),
    "a lock that names another": (f"runtime @ file:wheels/runtime-2.0-py3-none-any.whl {HASH}\n", 1, "is not there"),
    "a lock that leaves the folder": (f"runtime @ file:wheels/../x.whl {HASH}\n", 1, "is not there"),
    "other content": (f"runtime @ file:wheels/runtime-1.0-py3-none-any.whl {HASH}\n", 3, "pip could not get"),
}


@pytest.mark.parametrize("case", sampled(CARRIED, every(4)))
def test_a_carried_wheel_and_the_lock_have_to_agree(bench: Bench, case: str) -> None:
    """An update may bring another runtime than the lock names: the build says the one command that mends it."""
    carried = bench.folder / "carried"
    wheel(carried, "runtime", "1.0", {"runtime.py": "version = 1\n"})
    lock, code, phrase = CARRIED[case]
    done = bench.install(lock, carried=carried)
    assert (done.returncode, phrase in done.stderr) == (code, True), done.stderr
