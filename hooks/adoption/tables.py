"""Tables that tools keep for themselves, in pyproject.toml or a Pipfile: what they ask for beside the common ones."""

from __future__ import annotations

from typing import Any

from adoption.packaged import COMMON, TEST_GROUP, Packaging
from adoption.requirements import leave_sourced, pipfile_requirement, poetry_requirement, try_add

FILE = "pyproject.toml"
POETRY = "pyproject.toml (poetry)"


def read_tables(tool: dict[str, Any], found: Packaging) -> None:
    """Read the tables of Poetry, Flit, PDM, uv, Rye and Hatch."""
    if poetry := tool.get("poetry"):
        _poetry(poetry, found)
    _flit(tool.get("flit", {}).get("metadata", {}), found)
    for name, texts in tool.get("pdm", {}).get("dev-dependencies", {}).items():
        found.add_group(name, texts, FILE)
    for other in ("uv", "rye"):
        found.add_group("dev", tool.get(other, {}).get("dev-dependencies", []), FILE)
    for name, table in tool.get("hatch", {}).get("envs", {}).items():
        texts = [*table.get("dependencies", []), *table.get("extra-dependencies", [])]
        found.add_group("test" if name == "hatch-test" else name, texts, FILE)  # "default" often has every framework
    named = [one for one in tool.get("uv", {}).get("index", []) if not one.get("explicit")]
    _indexes([*named, *tool.get("pdm", {}).get("source", [])], FILE, found)


def _indexes(entries: list[dict[str, Any]], file: str, found: Packaging) -> None:
    """Note the indexes of a table that are not the common one and serve every package."""
    for one in entries:
        address = str(one.get("url", ""))
        if address and not COMMON.search(f"{one.get('name', '')} {address}"):
            found.add_index(address, file)


def _flit(table: dict[str, Any], found: Packaging) -> None:
    """Read the table in which Flit kept all of it before there was [project]."""
    if not table:
        return
    found.kinds += [FILE] if FILE not in found.kinds else []
    found.name = found.name or str(table.get("dist-name") or table.get("module", ""))
    if "requires-python" in table and not found.python:
        found.python, found.python_source = str(table["requires-python"]), FILE
    for text in table.get("requires", []):
        found.packages.add(text, FILE)
    for name, texts in table.get("requires-extra", {}).items():
        found.add_group(name, texts, FILE)


def _poetry(poetry: dict[str, Any], found: Packaging) -> None:
    found.kinds.append("poetry")
    found.name = found.name or str(poetry.get("name", ""))
    found.description = found.description or str(poetry.get("description", ""))
    found.scripts += [*poetry.get("scripts", {})]
    groups = {"dev": poetry.get("dev-dependencies", {})}
    groups |= {name: group.get("dependencies", {}) for name, group in poetry.get("group", {}).items()}
    for name, value in poetry.get("dependencies", {}).items():
        if name == "python":
            found.python, found.python_source = str(value), POETRY
        elif isinstance(value, dict) and value.get("optional"):
            extras = poetry.get("extras", {})
            extra = next((extra for extra, names in extras.items() if name in names), "optional")
            found.add_group(extra, [name], POETRY)
        else:
            for one in value[:1] if isinstance(value, list) else [value]:
                _poetry_add(found, name, one, dev=False)
    for group, entries in groups.items():
        if not TEST_GROUP.fullmatch(group):
            found.add_group(group, entries, POETRY)
            continue
        for name, value in entries.items():
            _poetry_add(found, name, value, dev=True)
    tables = [poetry.get("dependencies", {}), *groups.values()]
    leave_sourced(found.packages, {name: entry for table in tables for name, entry in table.items()}, "pyproject.toml")
    sources = [one for one in poetry.get("source", []) if one.get("priority") != "explicit"]
    _indexes(sources, "pyproject.toml", found)


def _poetry_add(found: Packaging, name: str, value: object, dev: bool) -> None:
    make = (poetry_requirement(name, value) for _ in range(1))
    try_add(found.packages, make, f"{name} = {value}", POETRY, dev)


def pipfile(data: dict[str, Any], found: Packaging) -> None:
    """Read a Pipfile."""
    if not data:
        return
    found.kinds.append("Pipfile")
    for table, dev in (("packages", False), ("dev-packages", True)):
        for name, value in data.get(table, {}).items():
            make = (pipfile_requirement(name, value) for _ in range(1))
            try_add(found.packages, make, f"{name} = {value}", "Pipfile", dev)
    if not found.python and (version := data.get("requires", {}).get("python_version")):
        found.python, found.python_source = f"=={version}.*", "Pipfile"
    for table in ("packages", "dev-packages"):
        leave_sourced(found.packages, data.get(table, {}), "Pipfile")
    _indexes(data.get("source", []), "Pipfile", found)
