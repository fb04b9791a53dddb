"""The tracked files of a repository, what its Python code imports, and where the code is."""

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from git_calls import git

ASIDE = {  # folders next to the code: what they import says little about what the code is
    "test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "notebook",
    "notebooks", "demo", "demos", "paper", "legacy", "tutorials", "evals",
}  # fmt: skip
BUILD = {"setup.py", "conftest.py", "noxfile.py", "hubconf.py"}
APPS = {"FastAPI", "Flask", "Starlette", "LitServer", "Quart", "Litestar", "Blocks", "Interface", "ChatInterface"}
PLAIN = re.compile(r"\w[\w.+-]*")  # a name that a shell script and a Dockerfile can contain
TEST = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
LARGEST = 1_000_000  # bytes; a larger file is not code that a person wrote


@dataclass(frozen=True)
class Module:
    """What one Python file imports, whether it makes a web application, and whether it is a program."""

    imports: frozenset[str] = frozenset()
    is_app: bool = False
    is_program: bool = False


@dataclass
class Tree:
    """The files of a commit in `folder`."""

    folder: Path
    paths: list[str]
    submodules: list[str] = field(default_factory=list)

    def text(self, path: str) -> str:
        """Return a file as text, "" if it is missing, a link, large, or not UTF-8."""
        place = self.folder / path
        try:
            if place.is_symlink() or place.stat().st_size >= LARGEST:
                return ""
            return place.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return ""

    @cached_property
    def python(self) -> list[str]:
        """Return the paths of the Python files; the part at the root can be written in scripts and Dockerfiles."""
        return [path for path in self.paths if path.endswith(".py") and PLAIN.fullmatch(path.split("/")[0])]

    @cached_property
    def modules(self) -> dict[str, Module]:
        """Return what each Python file contains that is neither a test nor an example nor a page."""
        core = (path for path in self.python if not (ASIDE | BUILD) & set(path.split("/")))
        return {path: read_module(self.text(path)) for path in core}

    @cached_property
    def imports(self) -> Counter[str]:
        """Return how many files of the code import which package."""
        return Counter(name for one in self.modules.values() for name in one.imports)

    @cached_property
    def tests(self) -> list[str]:
        """Return the files of tests."""
        return [path for path in self.python if TEST.search(path)]


def read_module(text: str) -> Module:
    """Return what a Python file contains; of one that this Python cannot parse, what its lines import."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        found = re.findall(r"(?m)^(?:from|import) +([A-Za-z_]\w*)", text)
        return Module(frozenset(found) - sys.stdlib_module_names, is_program="__main__" in text)
    imports, is_app = set[str](), False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call):
            is_app = is_app or ast.unparse(node.func).split(".")[-1] in APPS
    is_app = is_app or bool(imports & {"streamlit", "chainlit"})
    return Module(frozenset(imports - sys.stdlib_module_names), is_app, "__main__" in text)


def read_tree(folder: Path) -> Tree:
    """Return the tracked files of the repository in `folder`."""
    rows = [row for row in git(folder, "ls-files", "--stage", "-z").split("\0") if row]
    paths = {row.split("\t", 1)[1]: row.split(" ", 1)[0] for row in rows}
    submodules = [path for path, mode in paths.items() if mode == "160000"]
    return Tree(folder, [path for path in paths if path not in submodules], submodules)


@dataclass
class Layout:
    """Where the code is: the package that has the project's name, all packages, folders and files of code at the root,
    and the Python files there.
    """

    package: str
    packages: list[str]
    code: list[str]
    modules: list[str]


def layout_of(tree: Tree, name: str) -> Layout:
    """Return where the code is; `name` is the project's, which its package may have."""
    files = [path for path in tree.modules if not TEST.search(path)]
    modules = sorted(path for path in tree.python if "/" not in path and path not in BUILD)
    src_is_package = "src/__init__.py" in tree.paths
    in_src = sorted(
        {path.split("/")[1] for path in files if re.match(r"src/[^/]+/", path)} if not src_is_package else ()
    )
    holding = {path.split("/")[0] for path in files if "/" in path} - {"src", "scripts", "tools"}
    flat = sorted({name for name in holding if not name.startswith(".")} | ({"src"} if src_is_package else set()))
    settings = {path.split("/")[0] for path in tree.paths if "/" in path and path.endswith((".yaml", ".yml", ".json"))}
    code = [f"{folder}/" for folder in [*flat, *sorted({"config", "configs", "conf"} & settings - set(flat))]] + modules
    packages, plain = in_src or flat, re.sub(r"[^a-z0-9]", "", name.lower())
    package = next((one for one in packages if re.sub(r"[^a-z0-9]", "", one.lower()) == plain), "")
    return Layout(package or (packages[0] if len(packages) == 1 else ""), packages, code, modules)
