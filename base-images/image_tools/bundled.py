"""The libraries inside wheels, for the list of packages: NVIDIA's, and what a wheel vendors of others (*.libs)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

RECORD = re.compile(r"/site-packages/([^/]+)-([^/-]+)\.dist-info/RECORD$")
LIBRARY = re.compile(r"(?:^nvidia/|[^/]*\.libs/)(?:.*/)?([^/]+\.so(?:\.\d+)*)$")
NOTHING = "NOASSERTION"


def bundled_libraries(archive: Path) -> list[tuple[str, str, str]]:
    """Return (package, version, path of the library) of an image that `docker save` wrote, by the wheels' RECORDs."""
    found = set()
    with tarfile.open(archive) as image:
        [told] = json.load(image.extractfile("manifest.json") or io.BytesIO(b"[{}]"))
        for name in told["Layers"]:
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                for member in layer:
                    match = RECORD.search(f"/{member.name}")
                    file = layer.extractfile(member) if match else None
                    if match and file:
                        lines = csv.reader(io.TextIOWrapper(file, encoding="utf-8"))
                        owner = (canonicalize_name(match[1]), match[2])
                        found |= {(*owner, line[0]) for line in lines if line and LIBRARY.match(line[0])}
    return sorted(found)


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
