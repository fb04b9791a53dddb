"""How a repository is packaged, and what it asks for: every kind of file that says so, read and never run."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from adoption.packaged import EXTRA, Packaging
from adoption.requirement_files import DEV_FILE, Reader, conda, requirement_files, say_unread, words_of
from adoption.requirements import leave_sourced, lines_of, pipfile_requirement, poetry_requirement, try_add
from adoption.setup_py import Setup, read_setup
from adoption.texts import decoded, named

STYLE = re.compile(  # what checks style, builds pages or publishes: no test needs it
    r"(black|flake8.*|isort|mypy.*|pylint.*|ruff|pre-commit|sphinx.*|mkdocs.*|docutils|pymdown-extensions|twine|build|bandit|tox|nox|"
    r"ipython|jupyter.*|notebook|pyinstaller|codespell|bumpversion|types-.*|myst.*|furo|setuptools.*|wheel|pip)"
)
TEST_GROUP = re.compile(r"(dev|test|tests|testing|develop|development)")
GPU_GROUP = re.compile(r"(gpu|cuda)")  # what is made for an image with a GPU
BESIDE = re.compile(
    r"(docs?|documentation|lint|linting|style|format|build|publish|release|examples?|notebooks?|all|full)"
)


def read_packaging(folder: Path) -> Packaging:
    """Return what the files in a folder say about its packaging."""
    found = Packaging()
    _pyproject(folder, found)
    _setup_cfg(folder, found)
    _setup_py(folder, found)
    files = [] if found.static else requirement_files(folder)
    for path in files:
        Reader(folder, found).file(path)
    for path in requirement_files(folder, dev=True):
        Reader(folder, found, dev=True).file(path)
    for path in sorted([*folder.glob("environment*.y*ml"), *folder.glob("conda*.y*ml")]):
        conda(path, found, fill=not (files or found.static))
    _pipfile(folder, found)
    found.packages.dev = [asked for asked in found.packages.dev if not STYLE.fullmatch(asked.name)]
    found.hold()
    python_said(folder, found)
    _say_extras(found)
    say_unread(folder, found)
    return found


def _say_extras(found: Packaging) -> None:
    extras = {name: [one for one in names if one not in found.names()] for name, names in found.extras.items()}
    told = [f"{name} ({named(sorted(set(names)), 4)})" for name, names in extras.items() if names]
    if told:
        found.notes.append(
            f"extras are not locked: {named(told, 5)}; what the image needs of them goes into requirements.in"
        )


def _extra(found: Packaging, name: str, texts: Iterable[str], file: str) -> None:
    """Take an extra: one of tests is for development, of another one the names of its packages are kept."""
    for text in texts:
        own = re.match(rf"{re.escape(found.name)}\[", text) if found.name else None
        if TEST_GROUP.fullmatch(name) and not own:
            found.packages.add(text, file, dev=True)
        elif GPU_GROUP.fullmatch(name) and not own:
            found.packages.add(text, f"{file}{EXTRA}{name}")
        elif not (own or BESIDE.fullmatch(name)) and (start := re.match(r"[\w.-]+", text)):
            plain = canonicalize_name(start[0])
            found.extras.setdefault(name, []).extend([] if STYLE.fullmatch(plain) else [plain])


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(decoded(path.read_bytes()))
    except (OSError, tomllib.TOMLDecodeError):
        return {}


def _pyproject(folder: Path, found: Packaging) -> None:
    data = _toml(folder / "pyproject.toml")
    project, tool = data.get("project", {}), data.get("tool", {})
    found.backend = str(data.get("build-system", {}).get("build-backend", ""))
    found.explicit = bool(tool.get("setuptools", {}).keys() & {"packages", "py-modules"})
    if project:
        found.kinds.append("pyproject.toml")
        found.name, found.description = str(project.get("name", "")), str(project.get("description", ""))
        found.python, found.python_source = str(project.get("requires-python", "")), "pyproject.toml"
        found.static = "dependencies" not in project.get("dynamic", [])
        found.scripts = [*project.get("scripts", {})]
        for text in project.get("dependencies", []):
            found.packages.add(text, "pyproject.toml")
        for name, texts in project.get("optional-dependencies", {}).items():
            _extra(found, name, texts, "pyproject.toml")
        dynamic = tool.get("setuptools", {}).get("dynamic", {}).get("dependencies", {}).get("file", [])
        for name in [dynamic] if isinstance(dynamic, str) else dynamic:
            Reader(folder, found).file(folder / name)
    groups = data.get("dependency-groups", {})
    for text in (text for name in groups if TEST_GROUP.fullmatch(name) for text in grouped(groups, name)):
        found.packages.add(text, "pyproject.toml", dev=True)
    if poetry := tool.get("poetry"):
        _poetry(poetry, found)
    before = len(found.packages.left)
    leave_sourced(found.packages, tool.get("uv", {}).get("sources", {}), "pyproject.toml")
    found.static = found.static and len(found.packages.left) == before  # else uv would read the table itself


def grouped(groups: dict[str, Any], name: str, above: tuple[str, ...] = ()) -> list[str]:
    """Return what a group of PEP 735 asks for, with the groups that it includes."""
    plain = canonicalize_name(name)
    found: list[str] = []
    for entry in next((group for key, group in groups.items() if canonicalize_name(key) == plain), []):
        if isinstance(entry, str):
            found.append(entry)
        elif isinstance(entry, dict) and plain not in above:
            found += grouped(groups, str(entry.get("include-group", "")), (*above, plain))
    return found


def _poetry(poetry: dict[str, Any], found: Packaging) -> None:
    found.kinds.append("poetry")
    found.name = found.name or str(poetry.get("name", ""))
    found.description = found.description or str(poetry.get("description", ""))
    found.scripts += [*poetry.get("scripts", {})]
    groups = {"dev": poetry.get("dev-dependencies", {})}
    groups |= {name: group.get("dependencies", {}) for name, group in poetry.get("group", {}).items()}
    for name, value in poetry.get("dependencies", {}).items():
        if name == "python":
            found.python, found.python_source = str(value), "pyproject.toml (poetry)"
        elif isinstance(value, dict) and value.get("optional"):
            extras = poetry.get("extras", {})
            extra = next((extra for extra, names in extras.items() if name in names), "optional")
            _extra(found, extra, [name], "pyproject.toml (poetry)")
        else:
            for one in value[:1] if isinstance(value, list) else [value]:
                _poetry_add(found, name, one, dev=False)
    for group, entries in groups.items():
        for name, value in entries.items() if TEST_GROUP.fullmatch(group) else ():
            _poetry_add(found, name, value, dev=True)
    tables = [poetry.get("dependencies", {}), *groups.values()]
    leave_sourced(found.packages, {name: entry for table in tables for name, entry in table.items()}, "pyproject.toml")


def _poetry_add(found: Packaging, name: str, value: object, dev: bool) -> None:
    make = (poetry_requirement(name, value) for _ in range(1))
    try_add(found.packages, make, f"{name} = {value}", "pyproject.toml (poetry)", dev)


def _setup_cfg(folder: Path, found: Packaging) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(decoded((folder / "setup.cfg").read_bytes()))
    except (OSError, configparser.Error):
        return
    if parser.has_section("metadata") and parser.has_option("metadata", "name"):
        found.kinds.append("setup.cfg")
        found.name = found.name or parser.get("metadata", "name")
        found.description = found.description or parser.get("metadata", "description", fallback="")
    if parser.has_section("options"):
        found.explicit |= parser.has_option("options", "packages") or parser.has_option("options", "py_modules")
        found.python = found.python or parser.get("options", "python_requires", fallback="")
        found.python_source = found.python_source or "setup.cfg"
        asked = parser.get("options", "install_requires", fallback="").strip()
        for name in re.split(r"[,\s]+", asked.removeprefix("file:").strip()) if asked.startswith("file:") else []:
            Reader(folder, found).file(folder / name)
        for line in lines_of(asked) if not asked.startswith("file:") else []:
            found.packages.add(line, "setup.cfg")
    if parser.has_section("options.extras_require"):
        for name, text in parser.items("options.extras_require"):
            _extra(found, name, lines_of(text), "setup.cfg")


def _setup_py(folder: Path, found: Packaging) -> None:
    path = folder / "setup.py"
    if not path.is_file():
        return
    setup: Setup = read_setup(decoded(path.read_bytes()), folder)
    found.kinds.append("setup.py")
    found.extensions = setup.extensions
    found.explicit |= bool({"packages", "py_modules"} & setup.given)
    found.name = found.name or str(setup.known.get("name", ""))
    found.description = found.description or str(setup.known.get("description", ""))
    if "python_requires" in setup.known and not found.python:
        found.python, found.python_source = str(setup.known["python_requires"]), "setup.py"
    if found.static:
        return
    listed = setup.known.get("install_requires")
    texts = [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    for text in texts:
        found.packages.add(text, "setup.py")
    if setup.partial and ("install_requires" in setup.given or not found.packages.run):
        files = [name for name in setup.files if not DEV_FILE.search(words_of(folder / name))]
        for name in files:
            Reader(folder, found).file(folder / name)
        if not files:
            why = "it is computed, and only running setup.py would tell: write what it asks for into requirements.in"
            found.packages.left.append(("install_requires", "setup.py", why))
    extras = setup.known.get("extras_require")
    for name, texts in extras.items() if isinstance(extras, dict) else ():
        _extra(found, str(name), [str(text) for text in texts] if isinstance(texts, list) else [], "setup.py")


def python_said(folder: Path, found: Packaging) -> None:
    """Take the Python of files that only tools for installing it read, where no packaging says one."""
    said = {
        ".python-version": r"\A\s*(\d+\.\d+)", "runtime.txt": r"\A\s*python-(\d+\.\d+)",
        ".tool-versions": r"(?m)^python\s+(\d+\.\d+)", "Dockerfile": r"(?m)^FROM\s+(?:\S*/)?python:(\d+\.\d+)",
    }  # fmt: skip
    for name, pattern in said.items():
        path = folder / name
        version = re.search(pattern, decoded(path.read_bytes())) if path.is_file() and not found.python else None
        if version:
            found.python, found.python_source = f"=={version[1]}.*", name


def _pipfile(folder: Path, found: Packaging) -> None:
    data = _toml(folder / "Pipfile")
    if not data:
        return
    found.kinds.append("Pipfile")
    for table, dev in (("packages", False), ("dev-packages", True)):
        for name, value in data.get(table, {}).items():
            make = (pipfile_requirement(name, value) for _ in range(1))
            try_add(found.packages, make, f"{name} = {value}", "Pipfile", dev)
    if not found.python and (version := data.get("requires", {}).get("python_version")):
        found.python, found.python_source = f"=={version}.*", "Pipfile"
