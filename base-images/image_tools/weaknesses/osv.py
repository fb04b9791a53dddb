"""Known weaknesses of packages, from advisories in the format of OSV (https://ossf.github.io/osv-schema/) on this disk.

A folder of JSON files or the zip that osv.dev offers of an ecosystem (PyPI/all.zip, Debian/all.zip).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpu_repo_runtime.advisories import PYPI, Order, fixed_in, names_of, preference
from packaging.utils import canonicalize_name

from . import severity
from .versions import order_of


@dataclass(frozen=True)
class Weakness:
    """What is known of one version of a package; `fixed` is the first later version without it, "" for none."""

    names: tuple[str, ...]
    package: str
    version: str
    fixed: str
    summary: str
    severity: str
    published: str = ""


def normal_name(ecosystem: str, name: str) -> str:
    """Return the name under which a package is kept."""
    return canonicalize_name(name) if ecosystem == PYPI else name


@dataclass
class Advisories:
    """The advisories of each package, and how many files held none that can be read."""

    known: dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = field(default_factory=dict)
    told: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # name -> how bad and since when, in each
    count: int = 0
    unread: int = 0
    newest: str = ""

    def add(self, text: bytes) -> None:
        """Take one advisory in; one that was withdrawn says nothing any more."""
        try:
            told = json.loads(text)
            affected = [one for one in told["affected"] if one.get("package")]
            keys = [(str(one["package"]["ecosystem"]), str(one["package"]["name"])) for one in affected]
            names = names_of(told)
            words = severity.worst(severity.of_advisory(told, one) for one in affected or [{}])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.unread += 1
            return
        self.count += 1
        self.newest = max(self.newest, str(told.get("modified", "")))
        if told.get("withdrawn"):
            return
        for name in names:
            self.told.setdefault(name, []).append((words, str(told.get("published") or "")))
        for (ecosystem, name), one in zip(keys, affected, strict=True):
            self.known.setdefault((ecosystem, normal_name(ecosystem, name)), []).append((told, one))

    def ecosystems(self) -> set[str]:
        """Return the ecosystems that the advisories are about."""
        return {ecosystem for ecosystem, _ in self.known}

    def of(self, package: str, version: str, ecosystem: str = PYPI) -> list[Weakness]:
        """Return what is known of one version of a package, an advisory of several names once."""
        order, name = order_of(ecosystem), normal_name(ecosystem, package)
        return merged(
            (
                Weakness(
                    tuple(sorted(names_of(told), key=preference)), name, version, fixed,
                    str(told.get("summary") or ""), severity.of_advisory(told, affected),
                    str(told.get("published") or ""),
                )
                for told, affected in self.known.get((ecosystem, name), ())
                if (fixed := fixed_in(affected, version, order)) is not None
            ),
            order,
        )  # fmt: skip


def merged(found: Iterable[Weakness], order: Order) -> list[Weakness]:
    """Return weaknesses of one version, those that share a name as one: the worst word, the last fix, the first day."""
    kept: list[Weakness] = []
    for one in found:
        same = [other for other in kept if set(one.names) & set(other.names)]
        kept = [other for other in kept if other not in same]
        all_of = [one, *same]
        kept.append(
            Weakness(
                tuple(sorted({name for each in all_of for name in each.names}, key=preference)),
                one.package, one.version,
                max((each.fixed for each in all_of if order(each.fixed) is not None), key=order, default=""),
                next((each.summary for each in all_of if each.summary), ""),
                severity.worst(each.severity for each in all_of),
                min((each.published for each in all_of if each.published), default=""),
            )
        )  # fmt: skip
    return sorted(kept, key=lambda each: each.names)
