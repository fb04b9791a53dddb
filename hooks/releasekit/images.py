"""Refuses a catalogue that takes an image away from children, or gives them another one unasked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from releasekit.check import Check, load


def rows(template: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of the catalogue, by name."""
    return {row["name"]: row for row in load(template, "base-images/catalog.yml")["images"]}


def words_of(folder: Path) -> set[str]:
    """Return the words of a rendered Dockerfile, among them its base image."""
    place = folder / "Dockerfile"
    return set(re.findall(r"[a-z0-9-]+", place.read_text(encoding="utf-8"))) if place.exists() else set()


def check_images(check: Check) -> None:
    """Refuse images that are gone or newly retired without an entry."""
    now = rows(check.new)
    for name, row in rows(check.old).items():
        state = now[name]["state"] if name in now else "gone"
        if state in ("gone", "retired") and row["state"] != "retired":
            check.gone("image", name, f"the image {name}")


def check_image_of(check: Check, where: str, old: Path, new: Path) -> None:
    """Refuse another image for the same answers: an update never takes another one silently."""
    now = sorted(words_of(new) & rows(check.new).keys())
    for name in sorted((words_of(old) & rows(check.old).keys()) - words_of(new)):
        if now and not check.listed("image", name):
            check.refuse(
                f"children with {where} go from the image {name} to {', '.join(now)} unasked: give it to another "
                f"answer, or list {name} in templates/retired.yml (kind image)"
            )
