"""How a repository is packaged, and what it asks for: every kind of file that says so, read and never run."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from adoption.environments import pixi, read_environments
from adoption.packaged import STYLE, Packaging
from adoption.requirement_files import DEV_FILE, EXTRA_FILE, Reader, requirement_files, say_unread, words_of
from adoption.requirements import leave_sourced, lines_of
from adoption.setup_py import Setup, read_setup
from adoption.tables import pipfile, read_tables
from adoption.texts import decoded, named


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
    read_environments(folder, found, files, found.static)
    pipfile(toml_of(folder / "Pipfile"), found)
    pixi(toml_of(folder / "pixi.toml"), found, "pixi.toml")
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
            f"extras and groups are not locked: {named(told, 5)}; what the image needs goes into requirements.in"
        )


def toml_of(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(decoded(path.read_bytes()))
    except (OSError, tomllib.TOMLDecodeError):
        return {}


def _pyproject(folder: Path, found: Packaging) -> None:
    data = toml_of(folder / "pyproject.toml")
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
            found.add_group(name, texts, "pyproject.toml")
        dynamic = tool.get("setuptools", {}).get("dynamic", {}).get("dependencies", {}).get("file", [])
        for name in [dynamic] if isinstance(dynamic, str) else dynamic:
            Reader(folder, found).file(folder / name)
    groups = data.get("dependency-groups", {})
    for name in groups:
        found.add_group(name, grouped(groups, name), "pyproject.toml")
    read_tables(tool, found)
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
            found.add_group(name, lines_of(text), "setup.cfg")


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
        aside = (DEV_FILE, EXTRA_FILE)
        files = [n for n in setup.files if not any(kind.search(words_of(folder / n)) for kind in aside)]
        for name in files:
            Reader(folder, found).file(folder / name)
        if not files:
            why = "it is computed, and only running setup.py would tell: write what it asks for into requirements.in"
            found.packages.left.append(("install_requires", "setup.py", why))
    extras = setup.known.get("extras_require")
    for name, texts in extras.items() if isinstance(extras, dict) else ():
        found.add_group(str(name), [str(text) for text in texts] if isinstance(texts, list) else [], "setup.py")


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
