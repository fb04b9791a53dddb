"""What must hold of the template's own files before anything is compared: they can be read and mean what they say."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from copier.errors import CopierError
from packaging.version import InvalidVersion, Version

from releasekit.questions import settings_of

OWNERSHIP = "templates/ownership.yml"
OWNED = {"path", "owner", "what", "types", "kubernetes", "pipelines", "ci", "framework_has", "instead_of"}
ROW = {"name": str, "framework": str, "driver_min": int, "state": str}
INCLUDED = re.compile(r"(?m)^!include\s+(\S+)")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def faults(template: Path) -> Iterator[str]:
    """Give what keeps the files of a template from being read, or lets them mean something else than they say."""
    for name, check in CHECKS.items():
        place = template / name
        if not place.exists() and name not in NEEDED:
            continue
        try:
            yield from (f"{name} {fault}" for fault in check(template, place.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, yaml.YAMLError, CopierError, InvalidVersion, RecursionError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            yield f"{name} cannot be read: {said.replace(str(template), '.')}"


def version(_: Path, text: str) -> Iterator[str]:
    """Check VERSION."""
    Version(text.strip())
    yield from ()


def settings(template: Path, text: str) -> Iterator[str]:
    """Check copier.yml, with what it includes."""
    settings_of(template)
    for pattern in INCLUDED.findall(text):
        if not list(template.glob(pattern)):
            yield f"includes {pattern}, which is not there"
    for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
        yield from twice(document)


def twice(node: yaml.Node | None) -> Iterator[str]:
    """Give the keys that stand twice in one mapping, of which the last one wins without a message."""
    if isinstance(node, yaml.MappingNode):
        keys = Counter(str(key.value) for key, _ in node.value)
        yield from (f"has {key} twice: the last one wins" for key, count in keys.items() if count > 1)
        for _, value in node.value:
            yield from twice(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from twice(value)


def rows_of(text: str, what: str) -> list[dict[str, Any]]:
    """Return a list of mappings. Raises ValueError where it is something else."""
    found = yaml.safe_load(text) or []
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ValueError(f"it is not a list of {what}")
    return found


def retired(_: Path, text: str) -> Iterator[str]:
    """Check templates/retired.yml; what its entries say is compared later."""
    for entry in rows_of(text, "entries, each with kind, name, version and reason"):
        Version(str(entry.get("version") or "0"))
    yield from ()


def ownership(_: Path, text: str) -> Iterator[str]:
    """Check templates/ownership.yml."""
    for entry in rows_of(text, "entries, each with path, owner and what"):
        path = entry.get("path")
        if unknown := sorted(set(entry) - OWNED):
            yield f"has {', '.join(unknown)} for {path}, which means nothing: it knows {', '.join(sorted(OWNED))}"
        if not path or entry.get("owner") not in ("managed", "seed"):
            yield f"has the owner {entry.get('owner')} for {path}: it is managed or seed"


def catalogue(_: Path, text: str) -> Iterator[str]:
    """Check base-images/catalog.yml."""
    found = yaml.safe_load(text)
    images = found.get("images") if isinstance(found, dict) else None
    if not isinstance(images, list) or not images:
        raise ValueError("it lists no images")
    yield from twice(yaml.compose(text, Loader=yaml.SafeLoader))
    names = Counter(row.get("name") for row in images)
    yield from (f"has the row {name} twice" for name, count in names.items() if count > 1)
    for row in images:
        for key, kind in ROW.items():
            if not isinstance(row.get(key), kind):
                yield f"has the {key} {row.get(key)!r} in the row {row.get('name')}"


def pushed(_: Path, text: str) -> Iterator[str]:
    """Check base-images/released.json."""
    for name, image in json.loads(text).items():
        if "digest" in image and not DIGEST.fullmatch(str(image["digest"])):
            yield f"has the digest {image['digest']} for {name}: it is sha256: and 64 digits"


NEEDED = ("VERSION", "copier.yml")
CHECKS: dict[str, Callable[[Path, str], Iterator[str]]] = {
    "VERSION": version,
    "copier.yml": settings,
    "templates/retired.yml": retired,
    OWNERSHIP: ownership,
    "base-images/catalog.yml": catalogue,
    "base-images/released.json": pushed,
}
