"""Read the catalogue of images and the locks that belong to it."""

import hashlib
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).resolve().parent.parent
ROOT = FOLDER.parent
CATALOG = FOLDER / "catalog.yml"
BUILD = ROOT / "build" / "images"
DEFAULT_REGISTRY = "registry.example.com/ml"
DEFAULT_PLATFORM = "linux/amd64"
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}  # Python's word for the processor of each platform


class ImageError(Exception):
    """A problem that a person can fix; the message says what happened and what to do."""


@dataclass(frozen=True)
class Pin:
    """One locked package: its name in normal form, its version, the sha256 hashes, the marker (or "")."""

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str

    def applies(self, environment: dict[str, str]) -> bool:
        """Tell whether the package is installed on that platform (keys as in PEP 508)."""
        return not self.marker or Marker(self.marker).evaluate(environment)


def read_catalog(path: Path = CATALOG) -> dict[str, Any]:
    """Return the catalogue; raise ImageError when it is not the mapping it should be."""
    try:
        catalog: Any = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ImageError(f"{path}: cannot read the catalogue: {str(error).splitlines()[0]}") from error
    if not isinstance(catalog, dict) or not isinstance(catalog.get("images"), list):
        raise ImageError(f"{path}: expected a mapping with a list `images`")
    for number, row in enumerate(catalog["images"], 1):
        if not isinstance(row, dict) or not {"name", "state"} <= row.keys():
            raise ImageError(f"{path}: images, entry {number}: expected a row with a name and a state")
    return catalog


def find_row(catalog: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the row called `name`; raise ImageError with the known names when there is none."""
    rows: list[dict[str, Any]] = catalog["images"]
    for row in rows:
        if row["name"] == name:
            return row
    known = ", ".join(row["name"] for row in rows)
    raise ImageError(f"unknown image {name!r}: base-images/catalog.yml has {known}")


def live_rows(catalog: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that are still built: every state but retired."""
    return [row for row in catalog["images"] if row["state"] != "retired"]


def days_left(row: dict[str, Any], today: date) -> int:
    """Return for how many days after today fixes of a row are made; less than none once that is over."""
    return (date.fromisoformat(str(row["end_of_life"])) - today).days


def chosen_rows(catalog: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the named row, or all live rows for an empty name."""
    if not name:
        return live_rows(catalog)
    row = find_row(catalog, name)
    if row["state"] == "retired":
        raise ImageError(f"image {name!r} is retired since {row['end_of_life']}: nothing builds it any more")
    return [row]


def target_environment(catalog: dict[str, Any], platform: str = DEFAULT_PLATFORM) -> dict[str, str]:
    """Return the PEP 508 environment of the images of a platform: Linux with the catalogue's Python."""
    python = catalog["python"]
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": MACHINES[platform],
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }


def lock_path(name: str) -> Path:
    """Return the path of a row's lock."""
    return FOLDER / name / "requirements.lock"


def toolchain_path(row: dict[str, Any]) -> Path:
    """Return the path of the lock of nvcc for a row's CUDA; where it does not exist, the devel image has no nvcc."""
    return FOLDER / "toolchain" / f"cuda-{row['cuda']}.lock"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_lock(path: Path) -> dict[str, Pin]:
    """Return the pins of a lock by normal name.

    Raises:
        ImageError: no such file, a line that is not `name==version`, or a pin without a sha256 hash.
    """
    if not path.is_file():
        raise ImageError(f"{path}: no lock there; make one with `make lock IMAGE={path.parent.name}`")
    pins: dict[str, Pin] = {}
    for line in re.sub(r"\\\n", " ", path.read_text()).splitlines():
        line = line.strip()
        if line and not line.startswith(("#", "--")):
            pin = parse_pin(line, path)
            pins[pin.name] = pin
    if not pins:
        raise ImageError(f"{path}: the lock is empty; renew it with `make lock IMAGE={path.parent.name}`")
    return pins


def parse_pin(line: str, path: Path) -> Pin:
    """Return the pin that one joined line of a lock holds."""
    hashes = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    text = re.sub(r"--hash=\S+", "", line).strip()
    renew = f"renew it with `make lock IMAGE={path.parent.name}`"
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ImageError(f"{path}: cannot read {text!r}: {str(error).splitlines()[0]}; {renew}") from error
    versions = [spec.version for spec in requirement.specifier if spec.operator == "=="]
    if len(versions) != 1 or len(requirement.specifier) != 1:
        raise ImageError(f"{path}: {text!r} is not pinned to one version; {renew}")
    if not hashes:
        raise ImageError(f"{path}: {requirement.name}=={versions[0]} has no sha256 hash; {renew}")
    return Pin(canonicalize_name(requirement.name), versions[0], hashes, str(requirement.marker or ""))


def installed_pins(catalog: dict[str, Any], name: str, platform: str = DEFAULT_PLATFORM) -> dict[str, Pin]:
    """Return the pins of a row that an image really installs (its platform and Python)."""
    environment = target_environment(catalog, platform)
    pins = read_lock(lock_path(name))
    return {key: pin for key, pin in pins.items() if pin.applies(environment)}
