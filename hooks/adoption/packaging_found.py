"""How a repository is packaged, and what it asks for: every kind of file that says so, read and never run."""

from __future__ import annotations

import configparser
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from adoption.requirements import (
    Packages,
    conda_requirement,
    leave_sourced,
    lines_of,
    pipfile_requirement,
    poetry_requirement,
    try_add,
    without_hashes,
)
from adoption.setup_py import Setup, read_setup

DEV_FILE = re.compile(r"(?<![a-z])(dev|develop|development|test|tests|testing|lint|ci|optional)(?![a-z])")
NOT_OURS = re.compile(r"(docs?|example|benchmark|notebook|demo|readthedocs)")
STYLE = re.compile(  # what checks style, builds pages or publishes: no test needs it
    r"(black|flake8.*|isort|mypy.*|pylint.*|ruff|pre-commit|sphinx.*|mkdocs.*|docutils|pymdown-extensions|twine|build|bandit|tox|nox|"
    r"ipython|jupyter.*|notebook|pyinstaller|codespell|bumpversion|types-.*|myst.*|furo|setuptools.*|wheel|pip)"
)
OF_THE_IMAGE = re.compile(
    r"(python|pip|setuptools|wheel)\b(?!-)|_|(pytorch-)?cuda|cudnn|nccl|pytorch-mutex|mkl|blas|ninja"
)
TEST_GROUP = re.compile(r"(dev|test|tests|testing|develop|development)")


@dataclass
class Packaging:
    """What the files say; `kinds` are those that were found."""

    kinds: list[str] = field(default_factory=list)
    name: str = ""
    description: str = ""
    python: str = ""
    python_source: str = ""
    packages: Packages = field(default_factory=Packages)
    static: bool = False  # pyproject.toml says the packages itself, so that they need not be built to be known
    backend: str = ""
    explicit: bool = False  # it says which packages its wheel holds
    extensions: bool = False
    scripts: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def makers(self) -> list[str]:
        """Return what makes a wheel of it."""
        return [kind for kind in self.kinds if kind in ("setup.py", "setup.cfg", "pyproject.toml", "poetry")]


def read_packaging(folder: Path) -> Packaging:
    """Return what the files in a folder say about its packaging."""
    found = Packaging()
    _pyproject(folder, found)
    _setup_cfg(folder, found)
    _setup_py(folder, found)
    files = [] if found.static else requirement_files(folder)
    for path in files:
        _requirements(folder, path, found, dev=False)
    for path in requirement_files(folder, dev=True):
        _requirements(folder, path, found, dev=True)
    for path in sorted([*folder.glob("environment*.y*ml"), *folder.glob("conda*.y*ml")]):
        _conda(path, found, fill=not (files or found.static))
    _pipfile(folder, found)
    found.packages.dev = [asked for asked in found.packages.dev if not STYLE.fullmatch(asked.name)]
    return found


def requirement_files(folder: Path, dev: bool = False) -> list[Path]:
    """Return the requirements files at the root and in requirements/, those for development or the others."""
    every = sorted(
        [*folder.glob("*requirements*.txt"), *folder.glob("requirements/*.txt"), *folder.glob("*requirements*.in")]
    )
    wanted = [path for path in every if not NOT_OURS.search(path.name.lower())]
    chosen = [path for path in wanted if bool(DEV_FILE.search(_words(path))) == dev]
    if dev:
        return chosen
    main = [path for path in chosen if path.name == "requirements.txt"]
    return main or [path for path in chosen if path.suffix == ".in"] or chosen[:1]


def _words(path: Path) -> str:
    return path.stem.lower().replace("requirements", "")


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
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
            for text in texts if TEST_GROUP.fullmatch(name) else []:
                if not re.match(rf"{re.escape(found.name)}\[", text):
                    found.packages.add(text, "pyproject.toml", dev=True)
        dynamic = tool.get("setuptools", {}).get("dynamic", {}).get("dependencies", {}).get("file", [])
        for name in [dynamic] if isinstance(dynamic, str) else dynamic:
            _requirements(folder, folder / name, found, dev=False)
    for name, group in data.get("dependency-groups", {}).items():
        for text in group if TEST_GROUP.fullmatch(name) else []:
            if isinstance(text, str):
                found.packages.add(text, "pyproject.toml", dev=True)
    if poetry := tool.get("poetry"):
        _poetry(poetry, found)
    before = len(found.packages.left)
    leave_sourced(found.packages, tool.get("uv", {}).get("sources", {}), "pyproject.toml")
    found.static = found.static and len(found.packages.left) == before  # else uv would read the table itself


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
        elif not (isinstance(value, dict) and value.get("optional")):
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
        parser.read(folder / "setup.cfg", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return
    if parser.has_section("metadata") and parser.has_option("metadata", "name"):
        found.kinds.append("setup.cfg")
        found.name = found.name or parser.get("metadata", "name")
        found.description = found.description or parser.get("metadata", "description", fallback="")
    if parser.has_section("options"):
        found.explicit |= parser.has_option("options", "packages") or parser.has_option("options", "py_modules")
        found.python = found.python or parser.get("options", "python_requires", fallback="")
        found.python_source = found.python_source or "setup.cfg"
        for line in lines_of(parser.get("options", "install_requires", fallback="")):
            found.packages.add(line, "setup.cfg")
    if parser.has_section("options.extras_require"):
        for name, text in parser.items("options.extras_require"):
            for line in lines_of(text) if TEST_GROUP.fullmatch(name) else []:
                found.packages.add(line, "setup.cfg", dev=True)


def _setup_py(folder: Path, found: Packaging) -> None:
    path = folder / "setup.py"
    if not path.is_file():
        return
    setup: Setup = read_setup(path.read_text(encoding="utf-8", errors="replace"), folder)
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
    if isinstance(listed, list) and all(isinstance(text, str) for text in listed):
        for text in listed:
            found.packages.add(text, "setup.py")
    elif "install_requires" in setup.given:
        for name in setup.files:
            if not DEV_FILE.search(_words(folder / name)):
                _requirements(folder, folder / name, found, dev=False)
    extras = setup.known.get("extras_require")
    for name, texts in extras.items() if isinstance(extras, dict) else ():
        for text in texts if TEST_GROUP.fullmatch(str(name)) and isinstance(texts, list) else []:
            found.packages.add(str(text), "setup.py", dev=True)


def _requirements(folder: Path, path: Path, found: Packaging, dev: bool, seen: frozenset[Path] = frozenset()) -> None:
    if not path.is_file() or path in seen:
        return
    source = str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    found.texts[source] = text
    if source not in found.kinds:
        found.kinds.append(source)
    for line in lines_of(text):
        if other := re.match(r"(?:-r|--requirement)[ =]*(\S+)", line):
            _requirements(folder, path.parent / other[1], found, dev, seen | {path})
        elif line.startswith(("-e", "--editable", ".", "/", "git+", "http:", "https:", "file:")):
            if not re.fullmatch(r"(-e|--editable)?\s*\.(\[[\w,-]*\])?", line):
                reason = "it comes from an address and not from an index, so it has no hash to lock"
                found.packages.left.append((line, source, reason))
        elif re.match(r"(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)\b", line):
            found.packages.left.append((line, source, "an index is said with PIP_INDEX_URL or PIP_EXTRA_INDEX_URL"))
        elif not line.startswith("-"):
            found.packages.add(without_hashes(line), source, dev)


def _conda(path: Path, found: Packaging, fill: bool) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    if not isinstance(data, dict) or not isinstance(data.get("dependencies"), list):
        return
    found.kinds.append(path.name)
    found.texts[path.name] = text
    for entry in data["dependencies"]:
        if isinstance(entry, str):
            python = re.fullmatch(r"python\s*([=<>~].*)", entry)
            if python and not found.python:
                found.python, found.python_source = re.sub(r"^=+([^=]+)(=.*)?$", r"==\1", python[1]), path.name
            elif fill and not OF_THE_IMAGE.match(entry):
                make = (conda_requirement(text) for text in [entry])
                try_add(found.packages, make, entry, path.name)
        elif fill and isinstance(entry, dict):
            for line in entry.get("pip") or []:
                _pip_line(str(line), path.name, found)


def _pip_line(line: str, source: str, found: Packaging) -> None:
    if re.fullmatch(r"-e\s*\.", line.strip()):
        return
    if line.startswith(("-e", "git+", "http")):
        reason = "it comes from an address and not from an index, so it has no hash to lock"
        found.packages.left.append((line, source, reason))
    elif not line.startswith("-"):
        found.packages.add(without_hashes(line), source)


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
