"""Look for known vulnerabilities in an image's list of packages with Trivy (https://trivy.dev)."""

import argparse
from pathlib import Path
from typing import Any

from .build import engine_folder, local_tag, run
from .catalog import BUILD, FOLDER
from .platforms import asked, rows_on, suffix
from .sbom import write_sbom

ACCEPTED = FOLDER / ".trivyignore.yaml"
TRIVY = ["trivy", "sbom", "--severity=CRITICAL", "--ignore-unfixed", "--exit-code=1"]


def scan_list(bill: Path) -> None:
    """Raise ImageError if a list (SPDX) has a critical vulnerability with a fixed version, or trivy is missing."""
    run(
        [*TRIVY, f"--ignorefile={ACCEPTED}", str(bill)],
        f"{bill.name}: not accepted; build again with fixed versions, or accept what does no harm in {ACCEPTED.name}",
    )


def scan(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Scan the local image of each chosen row."""
    engine_folder()
    platform = asked(arguments)
    for row in rows_on(catalog, arguments.image, platform):
        tag = local_tag(catalog, row["name"], arguments.registry, platform)
        scan_list(write_sbom(f"{row['name']}{suffix(platform)}", tag, BUILD))
