"""What is installed: the packages of a lock, and those of an image by its list of packages (SPDX)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_repo_runtime.advisories import PYPI
from packageurl import PackageURL

from ..catalog import ImageError

DEBIAN = "Debian"
RELEASES = {"12": "bookworm", "13": "trixie", "14": "forky"}  # Debian's numbers and names
PIN = re.compile(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)")


@dataclass(frozen=True)
class Package:
    """One package: of PyPI, or a source package of Debian with the number of the release."""

    kind: str
    name: str
    version: str
    number: str = ""

    @property
    def release(self) -> str:
        """The name of Debian's release, as its tracker says it."""
        return RELEASES.get(self.number, self.number)


def of_lock(path: Path) -> set[Package]:
    """Return the packages of a lock, for every platform that it is for."""
    return {Package(PYPI, name, version) for name, version in PIN.findall(path.read_text(encoding="utf-8"))}


def of_bill(path: Path) -> set[Package]:
    """Return the packages that a list in SPDX names by their package URL. Raises ImageError."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["packages"]
        found = {package for entry in listed for package in of_entry(entry)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImageError(f"{path}: cannot read this package list: {error}; create it with `make sbom`") from error
    if not found:
        raise ImageError(f"{path}: contains no package URL (purl); create the list with `make sbom`")
    return found


def of_entry(entry: dict[str, Any]) -> Iterator[Package]:
    """Yield the packages that one entry of a list stands for: Debian's weaknesses are told of source packages."""
    for reference in entry.get("externalRefs") or ():
        if reference.get("referenceType") != "purl":
            continue
        url = PackageURL.from_string(reference["referenceLocator"])
        qualifiers: Any = url.qualifiers
        if url.type == "pypi":
            yield Package(PYPI, url.name, str(url.version))
        elif url.type == "deb":
            source, _, version = str(qualifiers.get("upstream") or url.name).partition("@")
            number = str(qualifiers.get("distro") or "").rpartition("-")[2]
            yield Package(DEBIAN, source, version or str(url.version), number)
