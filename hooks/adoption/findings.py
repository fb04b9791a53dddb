"""What was found in a repository, as the parts of an adoption hand it on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adoption.packaged import Packaging


@dataclass(frozen=True)
class Answer:
    """An answer and why."""

    value: Any
    reason: str


@dataclass
class Layout:
    """Where the code is."""

    kind: str  # src, flat, several, scripts, notebooks, empty
    package: str = ""
    packages: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)


@dataclass
class Findings:
    """All that was found: the answers with their reasons, and facts that the plan needs."""

    answers: dict[str, Answer]
    layout: Layout
    packaging: Packaging
    facts: dict[str, str]
    warnings: list[str]
    open: list[str] = field(default_factory=list)
