"""The tracked files of a repository, and what its Python code imports."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpu_repo_runtime.update.git_calls import git

ASIDE = {  # folders beside the code: what they import says little about what the code is
    "test", "tests", "testing", "doc", "docs", "docs_src", "example", "examples", "benchmark", "benchmarks",
    "notebook", "notebooks", "demo", "demos", "paper", "ci_scripts", "legacy", "tutorials", "evals",
}  # fmt: skip
LARGEST = 1_000_000  # a larger file is not code that somebody wrote


@dataclass
class Tree:
    """The files of a commit, as they lie in `folder`."""

    folder: Path
    paths: list[str]
    submodules: list[str] = field(default_factory=list)

    def text(self, path: str) -> str:
        """Return a file as text, "" where there is none or it is not text."""
        file = self.folder / path
        try:
            return file.read_text(encoding="utf-8-sig") if file.stat().st_size < LARGEST else ""
        except (OSError, UnicodeDecodeError):
            return ""

    @cached_property
    def python(self) -> list[str]:
        """Return the paths of all Python files."""
        return [path for path in self.paths if path.endswith(".py") and (self.folder / path).is_file()]

    @cached_property
    def core(self) -> list[str]:
        """Return the Python files that are neither tests nor examples nor pages."""
        aside = ASIDE | {"setup.py", "conftest.py", "noxfile.py", "hubconf.py"}
        return [path for path in self.python if not aside & set(path.split("/"))]

    @cached_property
    def modules(self) -> dict[str, Module]:
        """Return what each Python file of the core holds."""
        return {path: module(self.text(path)) for path in self.core}

    @cached_property
    def imports(self) -> Counter[str]:
        """Return how many files of the core import which package."""
        return Counter(name for one in self.modules.values() for name in one.imports)

    def root_folders(self) -> list[str]:
        """Return the folders at the root."""
        return sorted({path.split("/")[0] for path in self.paths if "/" in path})


@dataclass(frozen=True)
class Module:
    """What one Python file imports and makes."""

    imports: frozenset[str] = frozenset()
    apps: tuple[str, ...] = ()
    main: bool = False


def module(text: str) -> Module:
    """Return what the text of a Python file says; of one that this Python cannot parse, what its lines look like."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        found = re.findall(r"(?m)^(?:from|import) +([A-Za-z_]\w*)", text)
        return Module(frozenset(found), (), "__main__" in text)
    imports, apps = set[str](), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports.add(node.module.split(".")[0])
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func).split(".")[-1]
            if called in ("FastAPI", "Flask", "Starlette", "LitServer") and isinstance(node.targets[0], ast.Name):
                apps.append(f"{node.targets[0].id} = {called}()")
    return Module(frozenset(imports - set(sys.stdlib_module_names)), tuple(apps), "__main__" in text)


def read_tree(folder: Path) -> Tree:
    """Return the tracked files of the repository in `folder`."""
    rows = [row for row in git(folder, "ls-files", "--stage", "-z").split("\0") if row]
    paths = [(row.split("\t", 1)[1], row.split(" ", 1)[0]) for row in rows]
    return Tree(folder, [p for p, mode in paths if mode != "160000"], [p for p, mode in paths if mode == "160000"])
