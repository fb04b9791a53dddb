"""Packages without which the code goes on: it catches that an import of them finds nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from adoption.imports import KNOWN
from adoption.tree import Tree

MISSING = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def goes_without(tree: Tree, package: str) -> str:
    """Return the file that catches that a package is not there, "" where some code imports it and does not."""
    name = canonicalize_name(package)
    modules = {name.replace("-", "_")} | {module for module, of in KNOWN.items() if canonicalize_name(of) == name}
    caught = ""
    for path in [*tree.core, *(path for path in tree.python if "/" not in path)]:
        for how in imports_of(tree.text(path), modules):
            if how == "needed":
                return ""
            caught = caught or (path if how == "caught" else "")
    return caught


def imports_of(text: str, modules: set[str]) -> Iterator[str]:
    """Yield how each import of the modules is meant: caught where it fails, late (in a function), or needed."""
    if not any(module in text for module in modules):
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        yield "needed"
        return
    yield from _in(tree, modules, "needed")


def _in(node: ast.AST, modules: set[str], how: str) -> Iterator[str]:
    named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    named += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
    if any(name.split(".")[0] in modules for name in named):
        yield how
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and how == "needed":
        how = "late"
    tried = set(map(id, node.body)) if isinstance(node, ast.Try) and any(map(_catches, node.handlers)) else set()
    for child in ast.iter_child_nodes(node):
        yield from _in(child, modules, "caught" if id(child) in tried else how)


def _catches(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler takes the error of an import that finds nothing."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in MISSING) for kind in kinds)
