"""What a release check knows of the two versions, and the reasons that it has found to refuse the newer one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from packaging.version import Version
from releases import order

from releasekit.questions import settings_of

KINDS = ("file", "question", "choice", "image", "validator", "type")
SEEN = ("file", "question", "choice", "image")  # of these it shows in the rendering whether something is gone


def load(template: Path, name: str) -> Any:
    """Return a YAML file of the template, or nothing where there is none."""
    place = template / name
    return yaml.safe_load(place.read_text(encoding="utf-8")) if place.exists() else None


class Check:
    """The comparison of two templates; `refused` collects the reasons."""

    def __init__(self, old: Path, new: Path, old_version: str) -> None:
        self.old, self.new, self.old_version = old, new, old_version
        self.settings = settings_of(new)
        self.refused: list[str] = []
        self.impossible: dict[str, list[str]] = {}
        self.entries = load(new, "templates/retired.yml") or []
        self.retired = self.retired_since(old_version)
        self.used: set[tuple[str, str]] = set()

    def retired_since(self, version: str) -> set[tuple[str, str]]:
        """Return kind and name of what was taken away after `version`."""
        return {
            (str(entry.get("kind")), str(entry.get("name")))
            for entry in self.entries
            if order(str(entry.get("version") or "0.0.0")) > order(version)
        }

    def refuse(self, reason: str) -> None:
        """Remember a reason, once."""
        self.refused += [reason] if reason not in self.refused else []

    def listed(self, kind: str, name: str) -> bool:
        """Tell whether what is gone is listed as retired by this version, and remember that it is gone."""
        self.used.add((kind, name))
        return (kind, name) in self.retired

    def gone(self, kind: str, name: str, what: str) -> None:
        """Refuse what is gone unless it is listed as retired by this version."""
        if not self.listed(kind, name):
            self.refuse(f"{what} is gone: keep it, or list it in templates/retired.yml (kind {kind}, name {name})")

    def following(self) -> set[tuple[int, ...]]:
        """Return the versions that may follow the last one: the next patch, minor and major."""
        major, minor, patch = order(self.old_version)
        return {(major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)}

    def check_version(self) -> None:
        """Refuse a version that is not the next patch, minor or major after the last release."""
        text = (self.new / "VERSION").read_text(encoding="utf-8").strip()
        if text != self.old_version and order(text) not in self.following():
            self.refuse(f"VERSION is {text}, which does not follow {self.old_version}")
        changelog = self.new / "CHANGELOG.md"
        told = not changelog.exists() or f"## {text}" in changelog.read_text(encoding="utf-8")
        if text != self.old_version and not Version(text).is_devrelease and not told:
            self.refuse(f"CHANGELOG.md has no section '## {text}'")

    def new_entries(self) -> list[dict[str, Any]]:
        """Return the retirement entries that the last release did not have; a better reason makes no new one."""
        known = [{**entry, "reason": ""} for entry in load(self.old, "templates/retired.yml") or []]
        return [entry for entry in self.entries if {**entry, "reason": ""} not in known]

    def check_entries(self) -> None:
        """Refuse retirement entries that are not whole, or of a version other than the one that is to come."""
        text = (self.new / "VERSION").read_text(encoding="utf-8").strip()
        versions = {order(text)} if text != self.old_version else self.following()
        for entry in self.entries:
            for key in ("kind", "name", "version", "reason"):
                if not entry.get(key):
                    self.refuse(f"templates/retired.yml: {entry} lacks {key}")
            if entry.get("kind") not in KINDS:
                self.refuse(f"templates/retired.yml: {entry} has none of the kinds {', '.join(KINDS)}")
        for entry in self.new_entries():
            if order(str(entry.get("version") or "0.0.0")) not in versions:
                self.refuse(
                    f"templates/retired.yml: {entry.get('kind')} {entry.get('name')} is of version "
                    f"{entry.get('version')}, and what comes after {self.old_version} is not"
                )

    def check_unused(self) -> None:
        """Refuse a new entry for what no child loses: it would excuse the loss of it one day."""
        for entry in self.new_entries():
            kind, name = str(entry.get("kind")), str(entry.get("name"))
            if kind in SEEN and (kind, name) in self.retired - self.used:
                self.refuse(f"templates/retired.yml lists the {kind} {name}, which no child loses: take the entry out")
