"""Write the list of all packages in an image (SPDX, by syft) beside the release record."""

import argparse
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .build import check_engine, local_tag, run, save
from .catalog import BUILD, FOLDER, ImageError, program
from .platforms import own_platform, rows_on

ACCEPTED = FOLDER / ".trivyignore.yaml"
TRIVY = ["trivy", "sbom", "--severity=CRITICAL", "--ignore-unfixed", "--exit-code=2"]  # 1: Trivy could not look


def write_sbom(name: str, reference: str, folder: Path) -> Path:
    """Write FOLDER/sbom/NAME.spdx.json for an image of the local engine; return its path."""
    target = folder / "sbom" / f"{name}.spdx.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    # Packages only: a list of every file would be a hundred times longer and says nothing about versions.
    settings = {"SYFT_FILE_METADATA_SELECTION": "none", "SYFT_CHECK_FOR_APP_UPDATE": "false"}
    part = target.with_name(f".part-{target.name}")
    repository, _, digest = reference.partition("@")
    command = [program("syft"), "scan", "--quiet", f"--output=spdx-json={part}"]
    command += ["--override-default-catalogers=dpkg-db-cataloger,python-installed-package-cataloger"]
    command += [f"--source-name={repository}", *([f"--source-version={digest}"] if digest else [])]
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        command.append(f"docker-archive:{save(reference, Path(place))}")
        environment = os.environ | settings | {"TMPDIR": place}  # syft lays down the whole image
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        reason = result.stderr.strip().splitlines()
        raise ImageError(f"{reference}: no list of packages: {reason[-1][:300] if reason else 'syft gave no reason'}")
    if not packages_of(part):
        raise ImageError(f"{reference}: syft found no package; the list would be empty")
    part.replace(target)
    return target


def packages_of(bill: Path) -> dict[str, str]:
    """Return name -> version of the packages in a list; the image itself, which is listed too, is left out."""
    try:
        listed = json.loads(bill.read_text())["packages"]
    except (OSError, ValueError, KeyError) as error:
        raise ImageError(f"{bill}: cannot read this list of packages: {error}; make it with `make sbom`") from error
    own = [entry for entry in listed if not entry["SPDXID"].startswith("SPDXRef-DocumentRoot")]
    return {entry["name"]: entry.get("versionInfo", "") for entry in own}


def packages_id(bill: Path) -> str:
    """Return the packages of a list and their versions as 16 hexadecimal digits."""
    text = json.dumps(packages_of(bill), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def scan_list(bill: Path) -> None:
    """Raise ImageError if a list has a critical vulnerability with a fixed version, or Trivy cannot tell.

    Trivy (https://trivy.dev) reads which vulnerabilities are accepted, and until when, from .trivyignore.yaml.
    """
    run(
        [*TRIVY, f"--ignorefile={ACCEPTED}", str(bill)],
        f"{bill.name}: a vulnerability (2: build again, or accept it in {ACCEPTED.name}) or no scan (1): see above",
    )


def write_all(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the list of each chosen row's local image to build/images, and look for vulnerabilities (--scan)."""
    check_engine()
    for row in rows_on(catalog, arguments.image, own_platform()):
        path = write_sbom(row["name"], local_tag(catalog, row["name"], arguments.registry), BUILD)
        print(f"wrote {path}")
        if arguments.scan:
            scan_list(path)
