"""base-install, run in a small environment that stands in for an image: what it refuses, and what a kill leaves."""

from __future__ import annotations

import contextlib
import ensurepip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import packaging
import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "base-images" / "recipe" / "finish" / "base_install"
CUDA_RUNTIME = "nvidia/cu13/lib/libcudart.so.13"
# What a base image has: files of a framework, of NumPy, of the CUDA runtime, and a program of the framework.
BASE_PACKAGES = {
    "numpy": ("2.5.0", {"numpy/__init__.py": "base = True\n", "shared/__init__.py": "# a namespace\n"}),
    "torch": ("2.15.0", {"torch/__init__.py": "", "torch-2.15.0.data/scripts/torchrun": "#!python\nprint('base')\n"}),
    "nvidia-cuda-runtime": ("13.0.96", {CUDA_RUNTIME: "runtime", "nvidia/cu13/lib/libcublas.so.13": "cublas"}),
}
START = """
import sys
sys.path[:0] = [{lib!r}, *{wheels!r}]
from pathlib import Path
from base_install.cli import main
{before}
main(Path({base!r}))
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, str], requires: str = "") -> Path:
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

    def __init__(self, folder: Path) -> None:
        self.folder, self.wheels, self.base = folder, folder / "wheels", folder / "base"
        self.environment = folder / "env"
        self.python = self.environment / "bin" / "python"

    @property
    def site(self) -> Path:
        """The folder of packages."""
        return next(self.environment.glob("lib/python3*/site-packages"))

    def wheel(self, name: str, version: str = "1.0", requires: str = "", **files: str) -> str:
        """Write a wheel and return its line in a lock; the files are {path: text}."""
        return pin(wheel(self.wheels, name, version, files, requires))

    def install(
        self, lock: str | bytes, before: str = "", carried: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run base-install on a lock; `before` is Python that runs first, as a fault does."""
        path = self.folder / "requirements.lock"
        path.write_bytes(lock.encode() if isinstance(lock, str) else lock)
        lib = self.base / "lib"
        program = START.format(
            lib=str(lib), wheels=[str(next(lib.glob("packaging-*.whl")))], base=str(self.base), before=before
        )
        variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PATH": os.environ["PATH"]} | environment
        command = [self.python, "-IB", "-c", program, path, *([carried] if carried else [])]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    def tree(self) -> dict[str, str]:
        """Return each file of the environment with its content's checksum."""
        files = (path for path in self.environment.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {
            str(path.relative_to(self.environment)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the base, made once."""
    folder = tmp_path_factory.mktemp("image")
    lib = folder / "base" / "lib"
    shutil.copytree(SOURCE, lib / "base_install", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")), lib)
    with zipfile.ZipFile(lib / f"packaging-{packaging.__version__}-py3-none-any.whl", "w") as archive:
        for path in Path(packaging.__file__).parent.rglob("*.py"):
            archive.write(path, Path("packaging", path.relative_to(Path(packaging.__file__).parent)))
    facts = {"name": "torch-cu13", "cuda": "13.0"}
    (folder / "base" / "image.json").write_text(json.dumps(facts))
    versions = {name: version for name, (version, _) in BASE_PACKAGES.items()}
    (folder / "base" / "constraints.txt").write_text("".join(f"{n}=={v}\n" for n, v in versions.items()))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    found = [wheel(folder / "of-the-base", name, version, files) for name, (version, files) in BASE_PACKAGES.items()]
    pip = str(next(lib.glob("pip-*.whl"))) + "/pip"
    command = [folder / "env" / "bin" / "python", "-I", pip, "install", "--quiet", "--no-deps", "--no-index", *found]
    subprocess.run(command, check=True)
    (folder / "wheels").mkdir()
    return folder


@pytest.fixture
def bench(original: Path, tmp_path: Path) -> Bench:
    """A copy of the base for one test."""
    shutil.copytree(original, tmp_path / "image", symlinks=True)
    return Bench(tmp_path / "image")


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


def test_another_version_of_an_added_package_replaces_it(bench: Bench) -> None:
    """The lock of the development tools may pin another version of what the first lock added; its files go."""
    assert bench.install(bench.wheel("tool", **{"tool/old.py": "", "tool/__init__.py": "1"})).returncode == 0
    done = bench.install(bench.wheel("tool", "2.0", **{"tool/new.py": "", "tool/__init__.py": "2"}))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (bench.site / "tool").glob("*.py")) == ["__init__.py", "new.py"]
    assert not (bench.site / "tool-1.0.dist-info").exists()


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
    "a folder where the base has a file": ({"numpy/__init__.py/x.py": ""}, "would replace one of the image"),
}


@pytest.mark.parametrize("case", CLASHES)
def test_what_would_replace_or_hide_the_base_is_refused(bench: Bench, case: str) -> None:
    """A wheel is looked into before it is installed: files, programs and libraries of the base win."""
    files, phrase = CLASHES[case]
    refused(bench, bench.wheel("evil", **files), 1, "evil: ", phrase, "Ways out")


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


@pytest.mark.parametrize("name", NAMES)
def test_gpu_packages_are_known_by_all_their_names(bench: Bench, name: str) -> None:
    """A framework or CUDA package under another name is refused before anything is downloaded."""
    refused(bench, f"{name}==1.0 --hash=sha256:{'0' * 64}\n", 1, NAMES[name], "Ways out")


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


@pytest.mark.parametrize("case", LOCKS)
def test_a_lock_that_is_no_lock_is_refused(bench: Bench, case: str) -> None:
    """One line says what is wrong with it; no traceback, nothing changed, nothing passed over in silence."""
    lock, code, phrase = LOCKS[case]
    refused(bench, lock, code, phrase)


def test_comments_continued_lines_and_a_byte_order_mark_are_read(bench: Bench) -> None:
    """What editors and other tools write into a lock is not an error."""
    line = bench.wheel("tool").strip().replace(" --hash", " \\\r\n    --hash")
    done = bench.install(f"\ufeff# für uns\r\n--require-hashes\r\n{line} # via nothing\r\n")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("variable", ["PIP_TARGET", "PIP_USER", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN"])
def test_variables_that_lead_pip_elsewhere_count_for_nothing(bench: Bench, variable: str) -> None:
    """A person's settings for pip never move the packages out of the environment."""
    value = str(bench.folder / "elsewhere") if variable in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT") else "1"
    done = bench.install(bench.wheel("tool", **{"tool.py": ""}), **{variable: value})
    assert done.returncode == 0, done.stderr
    assert (bench.site / "tool.py").is_file()
    assert not (bench.folder / "elsewhere").exists()


def test_a_configuration_that_leads_pip_elsewhere_is_told(bench: Bench) -> None:
    """A pip.conf may name the index; one with a target makes pip install nothing where it should."""
    configuration = bench.folder / "pip.conf"
    configuration.write_text(f"[install]\nprefix = {bench.folder}/elsewhere\n")
    refused(bench, bench.wheel("tool", **{"tool.py": ""}), 3, "pip", PIP_CONFIG_FILE=str(configuration))


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


@pytest.mark.parametrize("case", CARRIED)
def test_a_carried_wheel_and_the_lock_have_to_agree(bench: Bench, case: str) -> None:
    """An update may bring another runtime than the lock names: the build says the one command that mends it."""
    carried = bench.folder / "carried"
    wheel(carried, "runtime", "1.0", {"runtime.py": "version = 1\n"})
    lock, code, phrase = CARRIED[case]
    done = bench.install(lock, carried=carried)
    assert (done.returncode, phrase in done.stderr) == (code, True), done.stderr


def fault(step: int, how: str) -> str:
    """Return Python that ends the program at its n-th renaming of a file."""
    return f"""
import os, signal
real, count = os.rename, 0
def rename(*arguments):
    global count
    count += 1
    if count == {step}:
        {how}
    real(*arguments)
os.rename = rename
"""


class Place:
    """An environment without Python in it, for the steps of placing alone."""

    def __init__(self, folder: Path) -> None:
        self.environment, self.packages = folder, folder / "lib" / "site-packages"
        self.outdated = [self.packages / name for name in ("tool/__init__.py", "tool/old.py")]
        for path in [*self.outdated, self.packages / "base.py"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(path.name)

    def is_base_file(self, path: Path) -> bool:
        """Tell whether it is the one file of the base."""
        return path == self.packages / "base.py"

    def stage(self, root: Path) -> None:
        """Write what pip would have installed below the root."""
        for name in ("tool/__init__.py", "tool/new/module.py", "other.py", "base.py"):
            path = root.joinpath(*self.packages.parts[1:]) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("new")

    def tree(self) -> dict[str, str]:
        """Return the text of each file, and an empty text for each folder."""
        paths = self.environment.rglob("*")
        return {str(path.relative_to(self.environment)): path.read_text() if path.is_file() else "" for path in paths}


def end_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the n-th renaming end the program: what is on the disk is what a kill leaves."""
    real, count = os.rename, 0

    def rename(source: str, goal: str) -> None:
        nonlocal count
        count += 1
        if count == step:
            raise KeyboardInterrupt(f"step {step}")
        real(source, goal)

    monkeypatch.setattr(os, "rename", rename)


def test_ended_at_any_step_it_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended at each step of placing, and at each step of taking back, the next start finds what was there before."""
    monkeypatch.syspath_prepend(str(SOURCE.parent))
    from base_install.placing import Placing

    place = Place(tmp_path / "env")
    before, ends = place.tree(), 0
    for step in range(1, 20):
        for second in (0, 1, 2, 3):
            placing = Placing(place)
            place.stage(placing.begin())
            with monkeypatch.context() as patch:
                end_at(step, patch)
                try:
                    placing.place(place.outdated)
                except KeyboardInterrupt:
                    ends += 1
                end_at(second, patch)
                with contextlib.suppress(KeyboardInterrupt):
                    Placing(place).take_back()
            Placing(place).take_back()
            assert place.tree() == before, f"ended at step {step}, then at step {second} of taking back"
    assert ends >= 5 * 4, "placing renames too few files for this test to mean anything"
    placing = Placing(place)
    place.stage(placing.begin())
    placing.place(place.outdated)
    placing.finish()
    files = {name: text for name, text in place.tree().items() if text}
    site = "lib/site-packages"
    assert files == {f"{site}/{name}": "new" for name in ("tool/__init__.py", "tool/new/module.py", "other.py")} | {
        f"{site}/base.py": "base.py"
    }


def test_a_killed_installation_is_repaired_by_the_next(bench: Bench) -> None:
    """Killed while files move, the environment is whole again when the next run begins, and takes the lock."""
    lock = bench.wheel("tool", **{"tool.py": "", "other.py": ""})
    done = bench.install(lock, fault(3, "os.kill(os.getpid(), signal.SIGKILL)"))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (bench.environment / ".base-install" / "journal.json").exists(), "it was killed too early to mean anything"
    done = bench.install(lock)
    assert (done.returncode, done.stdout.split()[1]) == (0, "1"), done.stderr
    assert not (bench.environment / ".base-install").exists()


def test_sigterm_ends_it_with_the_old_environment(bench: Bench) -> None:
    """A stopped build ends with 143 and takes back what it did."""
    before = bench.tree()
    lock = bench.wheel("tool", **{"tool.py": "", "other.py": ""})
    done = bench.install(lock, fault(3, "os.kill(os.getpid(), signal.SIGTERM)"))
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert bench.tree() == before
