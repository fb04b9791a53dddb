"""The tracked files of a repository, and what its Python code imports."""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpu_repo_runtime.update.git_calls import git

from adoption.notebooks import code_of, installed_by
from adoption.texts import decoded

ASIDE = {  # folders beside the code: what they import says little about what the code is
    "test", "tests", "testing", "doc", "docs", "docs_src", "example", "examples", "benchmark", "benchmarks",
    "notebook", "notebooks", "demo", "demos", "paper", "ci_scripts", "legacy", "tutorials", "evals",
}  # fmt: skip
APPS = (
    "FastAPI", "Flask", "Starlette", "LitServer", "Sanic", "Quart", "Litestar", "Blocks", "Interface", "ChatInterface",
)  # fmt: skip
PLAIN = re.compile(r"\w[\w.+-]*")
LARGEST = 1_000_000  # a larger file is not code that somebody wrote


@dataclass
class Tree:
    """The files of a commit, as they lie in `folder`."""

    folder: Path
    paths: list[str]
    submodules: list[str] = field(default_factory=list)
    links: frozenset[str] = frozenset()

    def text(self, path: str) -> str:
        """Return a file as text, "" where there is none or it is not text."""
        file = self.folder / path
        try:
            data = file.read_bytes() if file.stat().st_size < LARGEST else b""
            return data.decode(encoding) if (encoding := own_encoding(path, data)) else decoded(data, "strict")
        except (OSError, UnicodeDecodeError):
            return ""

    @cached_property
    def python(self) -> list[str]:
        """Return the paths of all Python files that lie under a plain name."""
        return [path for path in self.paths if path.endswith(".py") and (self.folder / path).is_file() and plain(path)]

    @cached_property
    def odd(self) -> list[str]:
        """Return what holds Python, or is a script beside the template's, and has no plain name; as git shows it."""
        code = [path for path in self.paths if path.endswith(".py") and not plain(path)]
        tops = {path.split("/")[0] if utf8(path) else path for path in code}
        tops |= {path for path in self.paths if re.match(r"scripts/[^/]+$", path) and not PLAIN.fullmatch(path[8:])}
        return sorted(path.encode(errors="surrogateescape").decode(errors="backslashreplace") for path in tops)

    @cached_property
    def notebooks(self) -> list[str]:
        """Return the paths of all notebooks."""
        return [p for p in self.paths if p.endswith(".ipynb") and ".ipynb_checkpoints" not in p and utf8(p)]

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
        """Return how many files of the core import which package; where there are only notebooks, how many of them."""
        files = self.modules.values() if self.core else self.pages.values()
        return Counter(name for one in files for name in one.imports)

    @cached_property
    def pages(self) -> dict[str, Module]:
        """Return what each notebook holds."""
        return {path: module(code_of(self.folder / path)) for path in self.notebooks}

    @cached_property
    def installed(self) -> dict[str, list[str]]:
        """Return what each notebook gives to pip."""
        return {path: texts for path in self.notebooks if (texts := installed_by(self.folder / path))}

    def root_folders(self) -> list[str]:
        """Return the folders at the root."""
        return sorted({path.split("/")[0] for path in self.paths if "/" in path})


def own_encoding(path: str, data: bytes) -> str:
    """Return the encoding that a Python file names in its first lines (PEP 263), "" for UTF-8 and for other files."""
    try:
        name = tokenize.detect_encoding(io.BytesIO(data).readline)[0] if path.endswith(".py") else "utf-8"
    except SyntaxError:
        return ""
    return "" if name.startswith("utf-8") else name


def utf8(path: str) -> bool:
    """Tell whether a path can be written as UTF-8: git knows names as bytes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in path)


def plain(path: str) -> bool:
    """Tell whether a path can be said in a shell script and a Dockerfile, which name what lies at the root."""
    return utf8(path) and bool(PLAIN.fullmatch(path.split("/")[0]))


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
        else:
            apps += [f"{name} = {called}()" for called, name in _made(node) if called in APPS]
    return Module(frozenset(imports - set(sys.stdlib_module_names)), tuple(apps), "__main__" in text)


def _made(node: ast.AST) -> list[tuple[str, str]]:
    """Return what a statement calls to make something, and the name that it gets."""
    pairs: list[tuple[ast.expr, ast.expr | None]] = []
    if isinstance(node, ast.Assign):
        pairs = [(node.value, node.targets[0])]
    elif isinstance(node, ast.With | ast.AsyncWith):
        pairs = [(item.context_expr, item.optional_vars) for item in node.items]
    return [
        (ast.unparse(made.func).split(".")[-1], name.id)
        for made, name in pairs
        if isinstance(made, ast.Call) and isinstance(name, ast.Name)
    ]


def read_tree(folder: Path) -> Tree:
    """Return the tracked files of the repository in `folder`."""
    rows = [row for row in git(folder, "ls-files", "--stage", "-z").split("\0") if row]
    paths = [(row.split("\t", 1)[1], row.split(" ", 1)[0]) for row in rows]
    links = frozenset(path for path, mode in paths if mode == "120000")
    modules = [path for path, mode in paths if mode == "160000"]
    return Tree(folder, [path for path, mode in paths if mode != "160000"], modules, links)


def without_strangers(tree: Tree) -> dict[str, str]:
    """Let links of the clone lead nowhere that lead to no file or folder of it: nothing beyond is read or written.

    Returns these links and where they led.
    """
    root, found = tree.folder.resolve(), dict[str, str]()
    for path in tree.links:
        place = tree.folder / path
        if place.is_symlink() and not _inside(place, root):
            found[path] = os.readlink(place)
            _point(place, "nowhere in the repository")
    return found


def restore(tree: Tree, links: dict[str, str]) -> None:
    """Let links lead where they led, but for those that made room."""
    for path, target in links.items():
        if (tree.folder / path).is_symlink():
            _point(tree.folder / path, target)


def _point(place: Path, target: str) -> None:
    place.unlink()
    place.symlink_to(target)


def _inside(place: Path, root: Path) -> bool:
    try:
        end = place.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return end.is_relative_to(root) and not end.is_relative_to(root / ".git") and (end.is_file() or end.is_dir())
