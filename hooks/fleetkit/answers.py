"""What the answers of a child say, read so that they cost that child alone: they are text of somebody else."""

from __future__ import annotations

from typing import Any

import yaml

from fleetkit.children import FleetError

ANSWERS = ".copier-answers.yml"
LONGEST = 1 << 18  # characters; the answers of this family have about 1,500
MOST = 10_000  # values, once each alias stands for what it names


def values_in(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node unfolds to; one that holds itself has no end and counts as too many."""
    if id(node) not in known:
        known[id(node)] = MOST + 1
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        inner = () if isinstance(node, yaml.ScalarNode) else parts
        known[id(node)] = 1 + sum(values_in(part, known) for part in inner)
    return known[id(node)]


def answers_in(text: str | bytes, needed: tuple[str, ...] = ("_commit", "_src_path")) -> dict[str, Any]:
    """Return the answers in a text. Raises FleetError where it is not whole, or unfolds to more than it shows."""
    if len(text) > LONGEST:
        raise FleetError(f"no answers that can be read: {ANSWERS} has more than {LONGEST} characters")
    try:
        loader = yaml.SafeLoader(text)  # the one in C does not survive a list in a list, ten thousand deep
        try:
            node = loader.get_single_node()
            if node is not None and values_in(node, {}) > MOST:
                raise FleetError(f"no answers that can be read: {ANSWERS} unfolds to more than {MOST} values")
            answers = loader.construct_document(node) if node is not None else {}
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FleetError(f"no answers that can be read: {' '.join(str(error).split())}") from error
    for key in needed:
        if not isinstance(answers, dict) or not isinstance(answers.get(key), str):
            raise FleetError(f"no answers that can be read: {ANSWERS} lacks {key}")
    return dict(answers)


def version_in(text: str | bytes) -> str:
    """Return the version that answers follow; nothing where they cannot be read."""
    try:
        return str(answers_in(text, ("_commit",))["_commit"])
    except FleetError:
        return ""
