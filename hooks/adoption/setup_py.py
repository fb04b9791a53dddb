"""What a setup.py says, read from its syntax: it is never run, for it may do anything."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Setup:
    """The arguments of `setup()` that could be read, and the requirements files that its text names."""

    known: dict[str, Any] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    files: list[str] = field(default_factory=list)
    extensions: bool = False
    partial: bool = False  # of what it asks for, only a part can be read
    calls: int = 0


class Unknown(Exception):
    """The value is computed, and only running the file would tell it."""


def value_of(node: ast.expr, names: dict[str, ast.expr]) -> Any:
    """Return the value of an expression of literals, names and sums of them. Raises Unknown."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return value_of(names[node.id], {key: value for key, value in names.items() if key != node.id})
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [value_of(item, names) for item in node.elts if not isinstance(item, ast.Starred)]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {value_of(key, names): known(value, names) for key, value in pairs if key is not None}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return value_of(node.left, names) + value_of(node.right, names)
    if isinstance(node, ast.JoinedStr):
        raise Unknown
    if isinstance(node, ast.Subscript):
        return value_of(node.value, names)[value_of(node.slice, names)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {word.arg: known(word.value, names) for word in node.keywords if word.arg}
    raise Unknown


def parts(node: ast.expr, names: dict[str, ast.expr]) -> tuple[list[Any], bool]:
    """Return the lists in a sum that can be read, as one, and whether these are all of it."""
    if isinstance(node, ast.Name) and node.id in names:
        return parts(names[node.id], {key: value for key, value in names.items() if key != node.id})
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        (left, all_left), (right, all_right) = parts(node.left, names), parts(node.right, names)
        return left + right, all_left and all_right
    if isinstance(node, ast.List | ast.Tuple):
        each = [
            parts(item.value, names) if isinstance(item, ast.Starred) else ([known(item, names)], True)
            for item in node.elts
        ]
        found = [text for texts, _ in each for text in texts]
        return [text for text in found if text is not None], None not in found and all(whole for _, whole in each)
    text = known(node, names)
    return (text.splitlines(), True) if isinstance(text, str) else ([], False)


def known(node: ast.expr, names: dict[str, ast.expr]) -> Any:
    """Return the value of an expression, None where it cannot be read."""
    try:
        return value_of(node, names)
    except (Unknown, TypeError, KeyError, IndexError):
        return None


def read_setup(text: str, folder: Path) -> Setup:
    """Return what the text of a setup.py says; what is computed is left out. A file that is not Python says nothing."""
    found = Setup()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return found
    names = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    changed = _grown(tree, names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) == "setup":
            words = {word.arg: word.value for word in node.keywords if word.arg}
            found.calls += 1
            for word in node.keywords:
                spread = known(word.value, names) if word.arg is None else {}
                found.partial |= not isinstance(spread, dict)
                if isinstance(spread, dict):
                    found.known |= {key: value for key, value in spread.items() if value is not None}
                    found.given |= set(spread)
                    found.partial |= spread.get("install_requires", []) is None
            found.given |= set(words)
            read = {name: known(value, names) for name, value in words.items()}
            found.known |= {name: value for name, value in read.items() if value is not None}
            if "install_requires" in words:
                found.known["install_requires"], whole = parts(words["install_requires"], names)
                asked = words["install_requires"]
                found.partial |= not whole or (isinstance(asked, ast.Name) and asked.id in changed)
    found.extensions = bool({"ext_modules", "cmdclass", "cffi_modules", "rust_extensions"} & found.given) and bool(
        re.search(r"Extension|cythonize|cffi_modules|rust_extensions", text)
    )
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    found.files = sorted(
        {
            t.removeprefix("./")
            for t in texts
            if re.fullmatch(r"[\w./-]*(req|dep|install)[\w./-]*\.(txt|in)", t) and (folder / t).is_file()
        }
    )
    return found


def _grown(tree: ast.Module, names: dict[str, ast.expr]) -> set[str]:
    """Add to the lists in `names` what top statements add to them; return those that other statements change, too."""
    changed = set()
    for node in ast.walk(tree):
        name, more = _addition(node)
        if name not in names:
            continue
        if more is None or node not in tree.body:
            changed.add(name)  # behind a condition, or by what cannot be read
        else:
            names[name] = ast.BinOp(names[name], ast.Add(), more)
    return changed


def _addition(node: ast.AST) -> tuple[str, ast.expr | None]:
    """Return the name of the list that a statement adds to and what it adds, "" for another statement."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return node.target.id, node.value if isinstance(node.op, ast.Add) else None
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
        return "", None
    added = {"append": ast.List(elts=call.args[:1], ctx=ast.Load()), "extend": call.args[0]}
    if isinstance(call.func.value, ast.Name) and call.func.attr in (*added, "insert", "remove"):
        return call.func.value.id, added.get(call.func.attr)
    return "", None


def _called(node: ast.Call) -> str:
    return (
        node.func.id
        if isinstance(node.func, ast.Name)
        else node.func.attr
        if isinstance(node.func, ast.Attribute)
        else ""
    )
