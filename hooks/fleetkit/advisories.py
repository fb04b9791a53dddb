"""Known weaknesses of children's packages: the advisories that a person gives, in the format of OSV."""

from __future__ import annotations

import zipfile
from pathlib import Path

from gpu_repo_runtime.advisories import PYPI, texts_in
from image_tools.weaknesses.osv import Advisories, Weakness

from fleetkit.children import FleetError

__all__ = ["Advisories", "Weakness", "load_advisories"]


def load_advisories(place: Path) -> Advisories:
    """Return the advisories of a folder of JSON files or a zip of them. Raises FleetError."""
    found = Advisories()
    try:
        for text in texts_in(place):
            found.add(text)
    except (OSError, zipfile.BadZipFile) as error:
        raise FleetError(f"--advisories {place}: it cannot be read: {error}") from error
    if not found.count or (found.known and PYPI not in found.ecosystems()):
        raise FleetError(
            f"--advisories {place}: it holds no advisory in the format of OSV (osv.dev offers PyPI/all.zip)"
        )
    return found
