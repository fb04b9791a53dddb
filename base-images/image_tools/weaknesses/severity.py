"""How bad a weakness is, in one word, from what advisories say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cvss import CVSS2, CVSS3, CVSS4
from cvss.exceptions import CVSSError

WORDS = ("unimportant", "low", "medium", "high", "critical")  # the mildest first
SAME = {"moderate": "medium", "important": "high", "minimal": "unimportant", "negligible": "unimportant"}
METRICS = {"CVSS_V2": CVSS2, "CVSS_V3": CVSS3, "CVSS_V4": CVSS4}


def normal(word: object) -> str:
    """Return one of WORDS for what a database says, "" where it says nothing that is known."""
    text = str(word or "").strip().lower()
    text = SAME.get(text, text)
    return text if text in WORDS else ""


def worst(words: Iterable[str]) -> str:
    """Return the worst of some words, "" where there is none."""
    return max((word for word in words if word in WORDS), key=WORDS.index, default="")


def of_score(entry: Any) -> str:
    """Return the word for one entry of an advisory's `severity`: a vector of CVSS, or a word."""
    if not isinstance(entry, dict):
        return ""
    calculator = METRICS.get(str(entry.get("type")))
    if calculator is None:
        return normal(entry.get("score"))
    try:
        return normal(calculator(str(entry.get("score"))).severities()[0])
    except CVSSError:
        return ""


def of_advisory(told: dict[str, Any], affected: dict[str, Any]) -> str:
    """Return the worst that an advisory says: of itself, of one package, as a vector or as a word."""
    words: list[str] = []
    for part in (told, affected):
        words += [of_score(entry) for entry in part.get("severity") or () if isinstance(part.get("severity"), list)]
        for key in ("database_specific", "ecosystem_specific"):
            if isinstance(about := part.get(key), dict):
                words += [normal(about.get("severity")), normal(about.get("urgency"))]
    return worst(words)
