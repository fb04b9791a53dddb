"""A lint that starts from what is there: old code keeps its faults, new code gets the rules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import tomlkit

from adoption.repository import AdoptError

NAME = "ruff-baseline.toml"
LOST = "\ufffd"  # what ruff says for a letter of a path that is not UTF-8
RUFF = str(Path(sys.executable).parent / "ruff")


def write_baseline(clone: Path, own_settings: str, submodules: list[str]) -> str:
    """Write the baseline for the files of the clone and return what it lets be, in words. Raises AdoptError.

    `own_settings` is the file with the owner's settings of ruff, "" where the template's count.
    """
    ignored: dict[str, set[str]] = defaultdict(set)
    excluded = {*submodules}
    unformatted: set[str] = set()
    for _ in range(4):  # a rule that is switched off may make a comment that names it superfluous
        _write(clone, own_settings, ignored, excluded, unformatted)
        faults = _faults(clone, own_settings)
        if not faults:
            break
        for path, code in faults:
            if code:
                ignored[path].add(code)
            else:
                excluded.add(path)
    else:
        raise AdoptError(
            "ruff finds faults that no baseline holds: " + ", ".join(sorted({path for path, _ in faults})[:3])
        )
    for path, code in _rows(clone, _ruff(clone, own_settings, "format", "--check", "--output-format", "json", ".")):
        (unformatted if code == "unformatted" else excluded).add(path)
    _write(clone, own_settings, ignored, excluded, unformatted)
    count = sum(map(len, ignored.values()))
    return f"{count} rules in {len(ignored)} files, {len(unformatted)} files not formatted, {len(excluded)} not read"


def _write(clone: Path, own: str, ignored: dict[str, set[str]], excluded: set[str], unformatted: set[str]) -> None:
    document = tomlkit.document()
    document.add(
        tomlkit.comment(
            "What code from before the template is let be by `scripts/lint`. Mend a file and drop its lines;"
        )
    )
    document.add(
        tomlkit.comment(
            "when none is left, `scripts/update --answer` sets `baseline: false` in `adopted`, and this file can go."
        )
    )
    settings = _own(clone, own)
    if own:
        document.add("extend", own)
    if excluded:
        document.add("extend-exclude", _lines({_glob(path) for path in excluded}))
    rules = tomlkit.table()
    if ignored:
        lint = tomlkit.table(is_super_table=True)
        for path in sorted(ignored):
            rules.add(_glob(path), sorted(ignored[path]))
        lint.add("extend-per-file-ignores", rules)
        document.add("lint", lint)
    before = settings.get("format", {}).get("exclude", [])
    if unformatted:
        form = tomlkit.table()
        form.add("exclude", _lines({*before, *map(_glob, unformatted)}))
        document.add("format", form)
    (clone / NAME).write_text(tomlkit.dumps(document), encoding="utf-8")


def _lines(texts: set[str]) -> tomlkit.items.Array:
    array = tomlkit.array()
    array.extend(sorted(texts))
    return array.multiline(True)


def _glob(path: str) -> str:
    """Return a pattern that matches this path alone; a letter that is not UTF-8 is any letter."""
    return re.sub(r"([\[\]*?{}!])", r"[\1]", path).replace(LOST, "?")


def _own(clone: Path, own: str) -> dict[str, dict[str, list[str]]]:
    if not own:
        return {}
    data = tomllib.loads((clone / own).read_text(encoding="utf-8"))
    found = data.get("tool", {}).get("ruff", {}) if own == "pyproject.toml" else data
    return dict(found)


def _ruff(clone: Path, own: str, *command: str) -> subprocess.CompletedProcess[str]:
    config = ["--config", NAME] if own else []
    return subprocess.run(
        [RUFF, *command[:1], "--no-cache", *config, *command[1:]],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
    )


def _faults(clone: Path, own: str) -> set[tuple[str, str]]:
    found = _rows(clone, _ruff(clone, own, "check", "--output-format", "json", "."))
    return {(path, _code(code)) for path, code in found}


def _rows(clone: Path, done: subprocess.CompletedProcess[str]) -> set[tuple[str, str]]:
    """Return the paths and codes that ruff tells of. Raises AdoptError where it tells of nothing at all."""
    if not done.stdout.strip():
        raise AdoptError(f"ruff cannot read the settings of this repository: {done.stderr.strip()[-300:]}")
    root = clone.resolve()
    rows = json.loads(done.stdout)
    paths = [(_under(root, Path(row["filename"])), row) for row in rows]
    return {(path, "" if LOST in path else str(row.get("code") or "")) for path, row in paths}


def _under(root: Path, file: Path) -> str:
    """Return a file as ruff knows it: a link by its own name, not by that of what it leads to."""
    place = file.parent.resolve() / file.name
    return str(place.relative_to(root) if place.is_relative_to(root) else file.resolve().relative_to(root))


def _code(code: str) -> str:
    """Return a rule that can be ignored, "" for a text that is not Python of this version."""
    return code if re.fullmatch(r"[A-Z]+\d+", code) and not code.startswith("E9") else ""
