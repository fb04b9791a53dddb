"""Known weaknesses of the packages in a repository's locks, and the versions without them.

pip-audit asks the advisory database of Python; where a database is given (a folder or zip of advisories in the format
of OSV), nothing is asked of anybody. Exit codes: 0 nothing known, 1 known weaknesses, 2 a database that cannot be read,
3 the database was not asked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from .advisories import PYPI, fixed_in, names_of, preference, python, texts_in

FINE, KNOWN, UNREADABLE, NOT_ASKED = 0, 1, 2, 3
PIP_AUDIT = "pip-audit==2.10.1"
PIN = re.compile(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)")
# The runtime lies in wheels/ and on no index, so that no database knows it.
OWN_WHEEL = re.compile(r"(?m)^\S+ @ file:.*\n(?: +--hash=.*\n)+|^(?:\./)?wheels/.*\n(?: +--hash=.*\n)+")

Found = tuple[str, str, str, str]  # package, version, name of the weakness, version without it


class AuditError(Exception):
    """Nothing was audited; `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def packages_of(lock: Path) -> list[tuple[str, str]]:
    """Return name and version of each package of a lock."""
    return [(canonicalize_name(name), version) for name, version in PIN.findall(lock.read_text(encoding="utf-8"))]


def in_database(packages: Iterable[tuple[str, str]], place: Path) -> list[Found]:
    """Return what a database of advisories knows of some packages. Raises AuditError."""
    known: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    try:
        for text in texts_in(place):
            told = json.loads(text)
            for affected in [] if told.get("withdrawn") else told["affected"]:
                about = affected.get("package") or {}
                if about.get("ecosystem") == PYPI:
                    known.setdefault(canonicalize_name(str(about["name"])), []).append((told, affected))
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AuditError(f"{place} is not a database of advisories: {error}; download it again", UNREADABLE) from error
    if not known:
        raise AuditError(
            f"{place} holds no advisory about Python packages in the format of OSV (osv.dev offers PyPI/all.zip)",
            UNREADABLE,
        )
    found = {
        (name, version, min(names_of(told), key=preference), fixed)
        for name, version in packages
        for told, affected in known.get(name, ())
        if (fixed := fixed_in(affected, version, python)) is not None
    }
    return sorted(found)


def asked(lock: Path, uv: Path) -> list[Found]:
    """Return what the advisory database of Python knows of a lock. Raises AuditError."""
    options = ["--strict", "--disable-pip", "--no-deps", "--progress-spinner=off", "--format=json"]
    with tempfile.NamedTemporaryFile("w", suffix=".lock", encoding="utf-8") as cut:
        cut.write(OWN_WHEEL.sub("", lock.read_text(encoding="utf-8")))
        cut.flush()
        command = [str(uv), "tool", "run", "--quiet", PIP_AUDIT, *options, "--requirement", cut.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return sorted(_told(json.loads(done.stdout)))
    except (ValueError, KeyError, TypeError) as error:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise AuditError(
            f"{lock}: the advisory database could not be asked: {last}; give one of your own with --db", NOT_ASKED
        ) from error


def _told(answer: dict[str, Any]) -> Iterator[Found]:
    for one in answer["dependencies"]:
        for weakness in one.get("vulns", ()):
            names = {weakness["id"], *weakness.get("aliases", ())}
            yield one["name"], one["version"], min(names, key=preference), next(iter(weakness["fix_versions"]), "")


def audit(locks: Iterable[Path], database: str, uv: Path) -> int:
    """Print what is known of each lock's packages and return the exit code."""
    lines: list[str] = []
    count = 0
    try:
        for lock in locks:
            packages = packages_of(lock)
            count += len(packages)
            found = in_database(packages, Path(database)) if database else asked(lock, uv)
            for package, version, name, fixed in found:
                way = f"fixed in {fixed}" if fixed else "no version without it is known"
                lines.append(f"{lock}: {package} {version}: {name}, {way}")
    except AuditError as error:
        print(f"lock: {error}", file=sys.stderr)
        return error.code
    print("\n".join([*lines, f"lock: packages: {count}, known weaknesses: {len(lines)}"]))
    if lines:
        print("lock: scripts/lock --upgrade takes newer versions where the base image lets it", file=sys.stderr)
    return KNOWN if lines else FINE
