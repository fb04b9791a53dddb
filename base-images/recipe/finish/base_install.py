#!/opt/env/bin/python
"""Install a child's locked packages on top of the base image, without changing the base.

usage: base-install LOCK [WHEELS]        (as root, in the Dockerfile of a child)

LOCK is the complete lock of the child with sha256 hashes; it may hold the packages of the base too, because a laptop
installs from the same file. WHEELS is the folder of the wheels that the child carries itself: the lock names each of
them with its hash (name @ file:wheels/...).

First every pin is compared with /opt/base/constraints.txt: another version of a package that the base holds, or a GPU
library that the base does not hold, ends the build with one line and changes nothing. Then only what is missing is
installed, by hash and without dependencies, and the whole environment is checked.

Exit codes: 0 installed, 1 the lock does not fit the image, 2 wrong use, 3 the installation failed.
"""

import fnmatch
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

BASE = Path("/opt/base")
CACHE = Path("/var/cache/base-install")
WHEELS = {path.name.split("-")[0]: str(path) for path in (BASE / "lib").glob("*.whl")}
sys.path.append(WHEELS["packaging"])

from packaging.requirements import InvalidRequirement, Requirement  # noqa: E402
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename  # noqa: E402

GPU_LIBRARIES = ("nvidia-*", "cuda-*", "triton", "torch", "tensorflow")
# Python bindings of the driver's management library: no CUDA library inside.
HARMLESS = ("nvidia-ml-py",)


def stop(message: str, code: int = 1) -> None:
    """End with one line on standard error."""
    print(f"base-install: {message}", file=sys.stderr)
    raise SystemExit(code)


def read_constraints() -> dict[str, str]:
    """Return the versions that the base holds, by normal name."""
    lines = (BASE / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def read_lock(path: Path, wheels: Path | None = None) -> dict[str, tuple[str, str]]:
    """Return (version, requirement line with hashes) by normal name, for what this platform installs."""
    pins = {}
    for line in re.sub(r"\\\r?\n", " ", path.read_text()).splitlines():
        line = line.split(" #")[0].strip()
        if not line or line.startswith(("#", "--")):
            continue
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}", line)
        text = re.sub(r"--hash=\S+", "", line).strip()
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            stop(f"{path}: cannot read {text!r}: expected name==version with hashes; make the lock with scripts/lock")
        if requirement.url and hashes:
            version = carried(path, wheels, requirement.url)
            place = (wheels / Path(requirement.url).name).resolve().as_uri()
            pins[canonicalize_name(requirement.name)] = (version, f"{requirement.name} @ {place} {' '.join(hashes)}")
            continue
        specifiers = list(requirement.specifier)
        if len(specifiers) != 1 or specifiers[0].operator != "==" or not hashes:
            stop(f"{path}: {text!r} needs one exact version and a sha256 hash; make the lock with scripts/lock")
        if requirement.marker is None or requirement.marker.evaluate():
            version = specifiers[0].version
            pin = f"{requirement.name}=={version} {' '.join(hashes)}"
            pins[canonicalize_name(requirement.name)] = (version, pin)
    return pins


def carried(lock: Path, wheels: Path | None, url: str) -> str:
    """Return the version of a wheel that the child carries, which the lock names as file:wheels/..."""
    name = url.removeprefix("file:wheels/")
    if wheels is None or "/" in name or not (wheels / name).is_file():
        stop(f"{lock} names {url}, which is not there: make the lock for what is in wheels/ with scripts/lock")
    try:
        return str(parse_wheel_filename(name)[1])
    except InvalidWheelFilename:
        stop(f"{lock} names {url}, which is no wheel: make the lock with scripts/lock")


def check_named(path: Path, wheels: Path) -> None:
    """End the build when the child carries a wheel that its lock does not name: an update brought it."""
    text = path.read_text()
    for wheel in sorted(wheels.glob("*.whl")):
        if f"@ file:wheels/{wheel.name}" not in text:
            stop(f"the lock does not name wheels/{wheel.name}, which the template brought: run scripts/lock and commit")


def is_gpu_library(name: str) -> bool:
    """Tell whether only the base may bring the package."""
    return name not in HARMLESS and any(fnmatch.fnmatchcase(name, pattern) for pattern in GPU_LIBRARIES)


def conflicts(pins: dict[str, tuple[str, str]], held: dict[str, str]) -> list[str]:
    """Return what the lock asks and the image cannot give: one phrase per package."""
    found = []
    for name, (version, _) in sorted(pins.items()):
        if name in held and held[name] != version:
            found.append(f"{name}: the lock asks {version}, the image has {held[name]}")
        elif name not in held and is_gpu_library(name):
            found.append(f"{name}: the lock asks {version}, the image has none and GPU libraries come from the image")
    return found


def check_fit(pins: dict[str, tuple[str, str]], held: dict[str, str]) -> None:
    """End the build when the lock does not fit the image."""
    if found := conflicts(pins, held):
        image = json.loads((BASE / "image.json").read_text())["name"]
        stop(
            f"the lock does not fit the image {image}: {'; '.join(found)}. Ways out: resolve again under the image's "
            "versions (scripts/lock), take another image (copier update -d framework=... or -d gpu_driver=...), "
            "or build an own image and set BASE_IMAGE."
        )


def installed() -> dict[str, str]:
    """Return the versions in the environment by normal name."""
    found = metadata.distributions(path=[sysconfig.get_path("purelib")])
    return {canonicalize_name(entry.metadata["Name"]): entry.version for entry in found}


def pip(*arguments: str) -> subprocess.CompletedProcess:
    """Run pip from its wheel: it is in no environment."""
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    return subprocess.run([sys.executable, f"{WHEELS['pip']}/pip", *arguments], env=environment, check=False)


def install(lines: list[str]) -> None:
    """Install the requirement lines by hash; the cache stays outside the layer."""
    cache = ["--cache-dir", str(CACHE)] if os.path.ismount(CACHE) else ["--no-cache-dir"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--quiet", *cache]
        if pip("install", *options, "-r", file.name).returncode:
            stop("pip could not install the packages (its message stands above); nothing of the base was changed", 3)


def main() -> None:
    """Compare, install what is missing, check."""
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        stop("usage: base-install LOCK [WHEELS]", 2)
    path, wheels = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else None
    if not path.is_file():
        stop(f"{path}: no such file; mount the lock into the build step", 2)
    if os.geteuid() != 0:
        stop("run it as root: USER root before and USER app after the step", 2)
    if wheels:
        check_named(path, wheels)
    held, pins = read_constraints(), read_lock(path, wheels)
    check_fit(pins, held)
    before = installed()
    missing = [line for name, (version, line) in pins.items() if before.get(name) != version]
    if missing:
        install(missing)
    after = installed()
    if moved := sorted(name for name, version in held.items() if after.get(name) != version):
        stop(f"these packages of the base changed: {', '.join(moved)}; this is a fault of base-install", 3)
    if pip("check").returncode:
        stop(f"{path}: packages miss what they need (pip's message stands above); make the lock with scripts/lock", 3)
    print(f"base-install: {len(missing)} packages installed, {len(pins) - len(missing)} were in the image already")


if __name__ == "__main__":
    main()
