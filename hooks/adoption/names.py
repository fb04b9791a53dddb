"""Names and words for a repository that joins: of the project, of the package between, of what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from adoption.findings import Answer
from adoption.packaged import Packaging
from adoption.tree import Tree


def clean_name(text: str) -> str:
    """Return a text as a project's name: small letters, digits and single dashes."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = f"ml-{name}" if name[:1].isdigit() else name
    return name[:40].strip("-") or "old-code"


def clean_description(packaging: Packaging, tree: Tree) -> Answer:
    """Return one line about it: what its packaging says, else the first sentence of its README."""
    text, reason = packaging.description, "its packaging says so"
    if not text.strip():
        readme = next((tree.text(p) for p in tree.paths if p.lower().startswith("readme.") and "/" not in p), "")
        plain = [
            line.strip() for line in readme.splitlines() if re.match(r"\s*[A-Za-z]", line) and len(line.strip()) > 20
        ]
        text, reason = (plain[0], "the first line of its README") if plain else ("", "nothing describes it")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    line = re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", re.sub(r"[`*]", "", text)).strip()
    return Answer(line[:200].strip() or "Code that was here before the template", reason)


def glue_name(base: str, kind: str, taken: Iterable[str]) -> str:
    """Return a name for the package between their code and the template's, that shadows nothing."""
    stem = re.sub(r"[^a-z0-9]+", "_", base.lower()).strip("_").lstrip("0123456789_")[:32] or "old_code"
    name = f"{stem}_{ {'service': 'service', 'batch': 'job', 'library': 'gpu'}[kind] }"
    while name in set(taken):
        name += "_"
        name = name.rstrip("_") + "x"
    return name
