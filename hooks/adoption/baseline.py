"""A lint that starts from what is there: files from before the template are left out, new files get the rules."""

from __future__ import annotations

import re
from pathlib import Path

import tomlkit

from adoption.placing import own_settings
from adoption.tree import Tree

NAME = "ruff-baseline.toml"
COMMENT = "Files from before the template, which scripts/lint leaves out. Remove a line to check its file."


def write_baseline(clone: Path, tree: Tree, new: list[str]) -> str:
    """Write the files that lint leaves out, on top of the owner's settings of ruff; return how many in words.

    The owner's rules may be stricter than the template's, so with them its `new` files are left out, too.
    """
    files = [path for path in tree.paths if path.endswith((".py", ".pyi", ".ipynb"))]
    own = own_settings(tree).get("ruff.toml", "ruff.toml" if "ruff.toml" in tree.paths else "")
    document = tomlkit.document()
    document.add(tomlkit.comment(COMMENT))
    if own:
        document.add("extend", own)
    excluded = tomlkit.array()
    excluded.extend(as_pattern(path) for path in [*files, *tree.submodules, *(new if own else [])])
    document.add("extend-exclude", excluded.multiline(True))
    (clone / NAME).write_text(tomlkit.dumps(document), encoding="utf-8")
    return f"lint leaves out {len(files)} files from before"


def as_pattern(path: str) -> str:
    """Return a pattern that matches this path alone; a byte that is not UTF-8 is any character."""
    return re.sub(r"[\ud800-\udfff]", "?", re.sub(r"([\[\]*?{}!])", r"[\1]", path))
