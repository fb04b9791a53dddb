"""What `importlib.metadata` says of the project that a repository is: its name, version, summary and entry points.

usage: project FOLDER TARGET

The code of a child runs from its folder and is not installed, so a package that asks for its own version would end with
PackageNotFoundError. `write` leaves the record of an installed package, read from the files of the repository, in a
folder of sys.path: scripts/setup calls it for .venv, the Dockerfile for the image. No code of the project runs for it.
Format: the core metadata specification and "Recording installed projects" of the Python Packaging User Guide.
"""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNKNOWN = "0+unknown"  # the version where only the build of the package would tell it
TIME = 315532800  # 1980-01-01, the first that every archive can hold: the same record is the same layer of an image
MARK = "gpu-repo-runtime"  # in INSTALLER: which records are ours


@dataclass
class Project:
    """What the files of a repository say of its package; `version` is a PEP 440 version."""

    name: str
    version: str = UNKNOWN
    summary: str = ""
    entry_points: dict[str, dict[str, str]] = field(default_factory=dict)


def read(folder: Path) -> Project | None:
    """Return the project of a folder, None where no file names it."""
    document = _pyproject(folder)
    table, tool = _table(document, "project"), _table(document, "tool")
    poetry = _table(tool, "poetry")
    old = _setup_cfg(folder) | _setup_py(folder)
    name = next((n for n in (table.get("name"), poetry.get("name"), old.get("name")) if isinstance(n, str) and n), "")
    if not re.fullmatch(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", name, re.ASCII):
        return None
    said = table.get("version") or _dynamic(folder, tool) or poetry.get("version") or old.get("version")
    summary = table.get("description") or poetry.get("description") or old.get("description") or ""
    points = {"console_scripts": _table(table, "scripts") or _table(poetry, "scripts")} | _table(table, "entry-points")
    texts = {group: {k: v for k, v in _table(points, group).items() if isinstance(v, str)} for group in points}
    return Project(
        name, _version(said), " ".join(str(summary).split()), {g: found for g, found in texts.items() if found}
    )


def write(folder: Path, target: Path) -> None:
    """Leave the record of the project of `folder` in the folder `target`, and none of an earlier name or version."""
    for other in target.glob("*.dist-info"):
        if (other / "INSTALLER").is_file() and (other / "INSTALLER").read_text(encoding="utf-8").strip() == MARK:
            shutil.rmtree(other)
    target.mkdir(parents=True, exist_ok=True)
    project = read(folder)
    if project is None:
        return
    record = target / f"{re.sub(r'[-_.]+', '_', project.name).lower()}-{project.version}.dist-info"
    if record.exists():  # the project itself was installed, by the owner
        return
    record.mkdir()
    summary = f"Summary: {project.summary}\n" if project.summary else ""
    head = f"Metadata-Version: 2.1\nName: {project.name}\nVersion: {project.version}\n"
    files = {"METADATA": head + summary, "INSTALLER": f"{MARK}\n"}
    if project.entry_points:
        files["entry_points.txt"] = "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items()) + "\n"
            for group, points in project.entry_points.items()
        )
    files["RECORD"] = "".join(f"{record.name}/{name},,\n" for name in [*files, "RECORD"])
    for name, text in files.items():
        (record / name).write_text(text, encoding="utf-8")
        os.utime(record / name, (TIME, TIME))
    os.utime(record, (TIME, TIME))


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _pyproject(folder: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(folder / "pyproject.toml"))
    except tomllib.TOMLDecodeError:
        return {}


VERSION = re.compile(
    r"v?((?:\d+!)?\d+(?:\.\d+)*)(?:[-_.]?(alpha|beta|preview|pre|rc|a|b|c)[-_.]?(\d*))?"
    r"(?:[-_.]?(?:post|rev|r)[-_.]?(\d*))?(?:[-_.]?(dev)[-_.]?(\d*))?(\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?"
)
STAGES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def _version(said: object) -> str:
    """Return a version in the normal form of PEP 440, UNKNOWN where what was said is none."""
    found = VERSION.fullmatch(said.strip().lower()) if isinstance(said, str) else None
    if not found:
        return UNKNOWN
    release, stage, number, post, dev, of_dev, local = found.groups()
    text = release + (f"{STAGES.get(stage, stage)}{number or 0}" if stage else "")
    text += f".post{post or 0}" if post is not None else ""
    return text + (f".dev{of_dev or 0}" if dev else "") + re.sub("[-_]", ".", local or "")


def _dynamic(folder: Path, tool: dict[str, Any]) -> str:
    """Return the version that setuptools or hatch takes from a file, "" where it comes from elsewhere."""
    source = _table(_table(_table(tool, "setuptools"), "dynamic"), "version")
    if isinstance(source.get("attr"), str):
        return _attribute(folder, source["attr"])
    if source.get("file"):
        named = source["file"] if isinstance(source["file"], list) else [source["file"]]
        return _text(folder / str(named[0])).strip()
    hatch = _table(_table(tool, "hatch"), "version")
    text = _text(folder / str(hatch["path"])) if hatch.get("path") else ""
    found = re.search(r"""(?i)^(?:__version__|version)[^=\n]*=\s*["']([^"']+)["']""", text, re.M)
    return found[1] if found else ""


def _attribute(folder: Path, dotted: str) -> str:
    """Return the text that a module of the folder assigns to a name, "" where it is computed."""
    *module, name = dotted.split(".")
    path = "/".join(module)
    for place in (f"{path}.py", f"{path}/__init__.py", f"src/{path}.py", f"src/{path}/__init__.py"):
        for node in _statements(_text(folder / place)):
            if not isinstance(node, ast.Assign) or name not in [getattr(one, "id", "") for one in node.targets]:
                continue
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                return node.value.value
    return ""


def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError):
        return []


def _setup_cfg(folder: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(_text(folder / "setup.cfg"))
    except configparser.Error:
        return {}
    found = dict(parser["metadata"]) if parser.has_section("metadata") else {}
    if attribute := re.fullmatch(r"attr:\s*([\w.]+)", found.get("version", "")):
        found["version"] = _attribute(folder, attribute[1])
    return found


def _setup_py(folder: Path) -> dict[str, str]:
    """Return the words that setup.py gives to setup() as plain texts."""
    words = {}
    for statement in _statements(_text(folder / "setup.py")):
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "setup":
                for word in node.keywords:
                    if word.arg and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
                        words[word.arg] = word.value.value
    return words


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
