"""Files that set up an environment and ask for packages in it: of conda, pixi, Cog and BentoML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from adoption.packaged import Packaging
from adoption.requirement_files import Reader
from adoption.requirements import conda_entry, conda_requirement, conda_version, lines_of, poetry_requirement, try_add
from adoption.texts import decoded, named
from adoption.tree import ASIDE

OF_THE_IMAGE = re.compile(
    r"(python|pip|setuptools|wheel)\b(?!-)|_|(pytorch-)?cuda|cudnn|nccl|pytorch-mutex|mkl|blas|ninja"
)
CONDA = ("environment*.y*ml", "conda*.y*ml", "env.y*ml")


def conda_files(folder: Path) -> list[Path]:
    """Return the conda environments at the root, else the only one in a folder of it."""
    here = sorted(path for pattern in CONDA for path in folder.glob(pattern))
    inner = sorted(path for pattern in CONDA for path in folder.glob(f"*/{pattern}"))
    inner = [path for path in inner if path.parent.name.lower() not in ASIDE and path.parent.name[0] != "."]
    return here or (inner if len(inner) == 1 else [])


def read_environments(folder: Path, found: Packaging, read: list[Path], static: bool) -> None:
    """Read the files that set up an environment: they fill what nothing else says, and else what they add is named.

    `read` are the requirements files that count; an environment that is made of them counts with them.
    """
    for path in conda_files(folder):
        data = _yaml(path)
        entries = data.get("dependencies")
        if not isinstance(entries, list):
            continue
        around = not static and bool({path.parent / name for name in _included(entries)} & set(read))
        _conda(path, entries, found, folder, fill=around or not (read or static))
    for name, asks in (("cog.yaml", _cog), ("bentofile.yaml", _bento), ("bentofile.yml", _bento)):
        if (path := folder / name).is_file():
            found.kinds.append(name)
            _fill(asks(_yaml(path), path, found), found, name, not found.packages.run)


def pixi(data: Mapping[str, Any], found: Packaging, file: str) -> None:
    """Read a pixi.toml, or the table of pixi in pyproject.toml."""
    if not data:
        return
    found.kinds.append(file)
    asks = Packaging()
    for name, value in data.get("dependencies", {}).items():
        version = value.get("version", "*") if isinstance(value, dict) else value
        _entry(f"{name} {'' if version == '*' else version}".strip(), file, asks, True)
    for name, value in data.get("pypi-dependencies", {}).items():
        try_add(asks.packages, (poetry_requirement(name, value) for _ in range(1)), f"{name} = {value}", file)
    if asks.python and not found.python:
        found.python, found.python_source = asks.python, file
    _fill(asks, found, file, not found.packages.run)


def _yaml(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(decoded(path.read_bytes()))
    except (OSError, yaml.YAMLError):
        return {}
    return data if isinstance(data, dict) else {}


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _included(entries: list[Any]) -> Iterator[str]:
    """Yield the requirements files that the part for pip names."""
    for entry in entries:
        for line in lines_of("\n".join(map(str, entry.get("pip") or []))) if isinstance(entry, dict) else ():
            if found := re.match(r"(?:-r|--requirement)[ =]*(\S+)", line):
                yield found[1]


def _conda(path: Path, entries: list[Any], found: Packaging, folder: Path, fill: bool) -> None:
    source = str(path.relative_to(folder))
    found.kinds.append(source)
    found.texts[source] = decoded(path.read_bytes())
    asks = Packaging()
    for entry in entries:
        if isinstance(entry, str):
            _entry(entry, source, asks, True)
        elif isinstance(entry, dict):
            for line in lines_of("\n".join(map(str, entry.get("pip") or []))):
                Reader(folder, asks).line(line, source, path.parent)
    if asks.python and not found.python:
        found.python, found.python_source = asks.python, source
    _fill(asks, found, source, fill)


def _fill(asks: Packaging, found: Packaging, file: str, fill: bool) -> None:
    """Take over what a file asks for, or name what nothing that was read asks for."""
    if fill:
        known = {asked.name for asked in found.packages.run}
        found.packages.run += [asked for asked in asks.packages.run if asked.name not in known]
        found.packages.left += [one for one in asks.packages.left if one not in found.packages.left]
        found.held += asks.held
        found.notes += asks.notes
        found.kinds += [kind for kind in asks.kinds if kind not in found.kinds]
    elif more := sorted({asked.name for asked in asks.packages.run} - found.names()):
        found.notes.append(
            f"of {file} is not read: {named(more)}; what the image needs of it goes into requirements.in"
        )


def _entry(entry: str, file: str, found: Packaging, fill: bool) -> None:
    name, version = conda_entry(entry)
    if name == "python" and version and not found.python:
        try:
            found.python, found.python_source = conda_version(version), file
        except ValueError:  # python_fits says that it cannot be read
            found.python, found.python_source = version, file
    elif fill and not OF_THE_IMAGE.match(name or entry):
        try_add(found.packages, (conda_requirement(text) for text in [entry]), entry, file)


def _cog(data: dict[str, Any], path: Path, found: Packaging) -> Packaging:
    build = _table(data, "build")
    if build.get("python_version") and not found.python:
        found.python, found.python_source = f"=={build['python_version']}.*", path.name
    return _lines(build.get("python_packages"), build.get("python_requirements"), path)


def _bento(data: dict[str, Any], path: Path, found: Packaging) -> Packaging:
    python = _table(data, "python")
    return _lines(python.get("packages"), python.get("requirements_txt"), path)


def _lines(texts: object, file: object, path: Path) -> Packaging:
    asks = Packaging()
    reader = Reader(path.parent, asks)
    for text in texts if isinstance(texts, list) else []:
        reader.line(str(text), path.name, path.parent)
    if isinstance(file, str):
        reader.file(path.parent / file)
    return asks
