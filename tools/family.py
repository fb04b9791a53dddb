"""What the family offers: frameworks and images (base-images/catalog.yml), types (templates/types.yml), questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


def catalog() -> dict[str, Any]:
    """Return the catalogue of images and frameworks."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text(encoding="utf-8"))
    return found


def asked_questions(settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the questions of a copier.yml that somebody is asked, in their order; the others are facts it computes."""
    return {
        name: question
        for name, question in settings.items()
        if not name.startswith("_") and isinstance(question, dict) and question.get("when") is not False
    }


def frameworks() -> dict[str, dict[str, Any]]:
    """Return what is known of each framework, by name; the first is the default."""
    return {one["name"]: one for one in catalog()["frameworks"]}


def types() -> dict[str, dict[str, Any]]:
    """Return what is known of each type of project, by name; the first is the default."""
    listed = yaml.safe_load((ROOT / "templates" / "types.yml").read_text(encoding="utf-8"))
    return {one["name"]: one for one in listed}
