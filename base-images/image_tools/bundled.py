"""The libraries inside wheels, for the list of packages: NVIDIA's, and what a wheel vendors of others (*.libs)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packageurl import PackageURL
from packaging.utils import canonicalize_name, parse_wheel_filename

RECORD = re.compile(r"/site-packages/([^/]+)-([^/-]+)\.dist-info/RECORD$")
LIBRARY = re.compile(r"(?:^nvidia/|[^/]*\.libs/)(?:.*/)?([^/]+\.so(?:\.\d+)*)$")
WHEEL = re.compile(r"opt/base/lib/([^/]+\.whl)")
NOTHING = "NOASSERTION"


def members_of(archive: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield each member of each layer of an image that `docker save` wrote, with the layer."""
    with tarfile.open(archive) as image:
        [told] = json.load(image.extractfile("manifest.json") or io.BytesIO(b"[{}]"))
        for name in told["Layers"]:
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                for member in layer:
                    yield layer, member


def bundled_libraries(archive: Path) -> list[tuple[str, str, str]]:
    """Return (package, version, path of the library) of an image that `docker save` wrote, by the wheels' RECORDs."""
    found = set()
    for layer, member in members_of(archive):
        match = RECORD.search(f"/{member.name}")
        file = layer.extractfile(member) if match else None
        if match and file:
            lines = csv.reader(io.TextIOWrapper(file, encoding="utf-8"))
            owner = (canonicalize_name(match[1]), match[2])
            found |= {(*owner, line[0]) for line in lines if line and LIBRARY.match(line[0])}
    return sorted(found)


def carried_wheels(archive: Path) -> list[str]:
    """Return the names of the wheels that base-install runs from: they are in no environment, so syft sees none."""
    return sorted({match[1] for _, member in members_of(archive) if (match := WHEEL.fullmatch(member.name))})


def with_wheels(document: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return a list of packages (SPDX) that names wheels which lie in the image as files, too."""
    root = next((one["SPDXID"] for one in document["packages"] if "DocumentRoot" in one["SPDXID"]), "SPDXRef-DOCUMENT")
    packages, related = [], []
    for wheel in names:
        name, version = map(str, parse_wheel_filename(wheel)[:2])
        entry = {"name": name, "SPDXID": f"SPDXRef-Wheel-{name}", "versionInfo": version, "filesAnalyzed": False}
        entry |= {"downloadLocation": NOTHING, "sourceInfo": f"/opt/base/lib/{wheel}"}
        entry |= dict.fromkeys(("licenseConcluded", "licenseDeclared", "copyrightText"), NOTHING)
        url = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl"}
        entry["externalRefs"] = [url | {"referenceLocator": PackageURL("pypi", None, name, version).to_string()}]
        packages.append(entry)
        ends = {"spdxElementId": root, "relatedSpdxElement": entry["SPDXID"]}
        related.append(ends | {"relationshipType": "CONTAINS"})
    return document | {
        "packages": [*document["packages"], *packages],
        "relationships": [*(document.get("relationships") or ()), *related],
    }


def with_libraries(document: dict[str, Any], libraries: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return a list of packages (SPDX) that names the libraries too, each contained in the package that brought it."""
    ids: dict[str, str] = {canonicalize_name(one["name"]): one["SPDXID"] for one in document["packages"]}
    root = next((one["SPDXID"] for one in document["packages"] if "DocumentRoot" in one["SPDXID"]), "SPDXRef-DOCUMENT")
    packages, related = [], []
    for owner, version, path in libraries:
        number = path.rpartition(".so")[2].lstrip(".")
        mark = hashlib.sha256(f"{owner} {path}".encode()).hexdigest()
        entry = {"name": Path(path).name, "SPDXID": f"SPDXRef-Library-{mark[:16]}"}
        entry |= {"versionInfo": version if path.startswith("nvidia/") else number or NOTHING}
        entry |= {"downloadLocation": NOTHING, "sourceInfo": f"{path}, in the wheel of {owner} {version}"}
        entry |= dict.fromkeys(("licenseConcluded", "licenseDeclared", "copyrightText"), NOTHING)
        packages.append(entry | {"filesAnalyzed": False})
        related.append(
            {
                "spdxElementId": ids.get(owner, root),
                "relatedSpdxElement": entry["SPDXID"],
                "relationshipType": "CONTAINS",
            }
        )
    return document | {
        "packages": [*document["packages"], *packages],
        "relationships": [*(document.get("relationships") or ()), *related],
    }
