"""What the family offers: its frameworks (base-images/catalog.yml) and rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


def catalog() -> dict[str, Any]:
    """Return the catalogue of images and frameworks."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text(encoding="utf-8"))
    return found


def frameworks() -> dict[str, dict[str, Any]]:
    """Return what is known of each framework, by name; the first is the default."""
    return {one["name"]: one for one in catalog()["frameworks"]}
