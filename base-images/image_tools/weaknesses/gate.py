"""Which known weaknesses stop a release: the rule, and what the catalogue allows for a time with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from gpu_repo_runtime.advisories import PYPI

from ..catalog import ImageError
from .databases import Databases
from .osv import Weakness, normal_name
from .packages import Package

SHOWN = 2  # places that a line names
ALLOWED_KEYS = {"id", "package", "reason", "until"}


@dataclass(frozen=True)
class Allowed:
    """One weakness of one package that is let pass until a day, with the reason."""

    name: str
    package: str
    reason: str
    until: date


@dataclass(frozen=True)
class Finding:
    """One weakness, where it was found, and why it stops a release, or "" and why it does not."""

    weakness: Weakness
    places: tuple[str, ...]
    stops: str
    passes: str
    allowed: Allowed | None = None

    def line(self) -> str:
        """The finding as one line."""
        one = self.weakness
        verdict = f"BLOCKS: {self.stops}" if self.stops else self.passes
        known = f"{', '.join(one.names[:2])} ({one.severity or 'severity unknown'})"
        more = f" and {len(self.places) - SHOWN} more" if len(self.places) > SHOWN else ""
        return f"{one.package} {one.version}: {known}, {verdict} [{', '.join(self.places[:SHOWN])}{more}]"


def settings(catalog: dict[str, Any]) -> tuple[int, list[Allowed]]:
    """Return the days that a fix may take, and what is allowed. Raises ImageError."""
    if problems := setting_problems(catalog):
        raise ImageError(f"base-images/catalog.yml: {'; '.join(problems)}")
    told = catalog["weaknesses"]
    return told["grace_days"], [
        Allowed(one["id"], one["package"], one["reason"], date.fromisoformat(str(one["until"])))
        for one in told["allowed"]
    ]


def setting_problems(catalog: dict[str, Any]) -> list[str]:
    """Return what is wrong with the form of `weaknesses`: nobody may be let pass without a reason and an end."""
    told = catalog.get("weaknesses")
    if not isinstance(told, dict) or not isinstance(told.get("allowed"), list):
        return ["weaknesses: expected grace_days and a list `allowed`"]
    found = []
    if not isinstance(told.get("grace_days"), int) or told["grace_days"] < 0:
        found.append(f"weaknesses.grace_days is {told.get('grace_days')!r}, expected a number of days")
    for number, one in enumerate(told["allowed"], 1):
        where = f"weaknesses.allowed, entry {number}"
        if not isinstance(one, dict) or one.keys() != ALLOWED_KEYS:
            found.append(f"{where}: expected {', '.join(sorted(ALLOWED_KEYS))}")
            continue
        found += [f"{where}: {key} is empty" for key in ("id", "package", "reason") if not str(one[key] or "").strip()]
        try:
            date.fromisoformat(str(one["until"]))
        except ValueError:
            found.append(f"{where}: until is {one['until']!r}, expected YYYY-MM-DD")
    return found


def age(published: str, today: date) -> int | None:
    """Return for how many days a weakness has been known; None where no day is told, or one that is still to come."""
    try:
        days = (today - date.fromisoformat(published[:10])).days
    except ValueError:
        return None
    return days if days >= -1 else None


def judged(one: Weakness, places: tuple[str, ...], grace: int, allowed: Iterable[Allowed], today: date) -> Finding:
    """Return what the rule says: what is critical, or of unknown severity, and can be fixed, may stand `grace` days."""
    if not one.fixed:
        return Finding(one, places, "", "no fixed version yet")
    if one.severity not in ("", "critical"):
        return Finding(one, places, "", f"fixed in {one.fixed}")
    days = age(one.published, today)
    if days is not None and days <= grace:
        return Finding(one, places, "", f"fixed in {one.fixed}; published {max(days, 0)} days ago, allowed for {grace}")
    since = "publication date unknown" if days is None else f"published {days} days ago"
    over = ""
    for rule in allowed:
        if rule.name in one.names and normal_name(PYPI, rule.package) == normal_name(PYPI, one.package):
            if today <= rule.until:
                return Finding(one, places, "", f"allowed until {rule.until}: {rule.reason}", rule)
            over = f", the exception expired on {rule.until}"
    return Finding(one, places, f"fixed in {one.fixed}, {since}{over}", "")


def findings(
    catalog: dict[str, Any], databases: Databases, places: dict[str, set[Package]], today: date
) -> list[Finding]:
    """Return what is known of the packages of each place, what stops first. Raises ImageError."""
    grace, allowed = settings(catalog)
    where: dict[Package, list[str]] = {}
    for place, packages in places.items():
        for package in packages:
            where.setdefault(package, []).append(place)
    found = [
        judged(one, tuple(where[package]), grace, allowed, today)
        for package in sorted(where, key=lambda one: (one.kind, one.name, one.version))
        for one in databases.of(package)
        if one.severity != "unimportant"
    ]
    return sorted(found, key=lambda one: not one.stops)


def unused(catalog: dict[str, Any], found: list[Finding]) -> list[str]:
    """Return a line for each thing that is allowed and that nothing needs any more."""
    used = {one.allowed for one in found}
    return [
        f"{rule.name} in {rule.package} is allowed until {rule.until}, but was not found: remove the entry"
        for rule in settings(catalog)[1]
        if rule not in used
    ]
