"""Packages that a lock holds far back: what the resolver finds for them is years old, and often works no more.

A resolver takes the newest set that no package speaks against. Old versions had fewer bounds: where the newer ones do
not go together, it ends with one of years ago that was never tried with what is current now.
"""

from __future__ import annotations

import subprocess
import tomllib
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from adoption.requirements import versions_held
from adoption.room import UV
from adoption.source_archives import environment

FAR = timedelta(days=730)  # older than the newest by so much
CHOOSE = ("--quiet", "--universal", "--python-version", "3.11", "--no-deps", "--no-header", "--format", "pylock.toml")


def held_back(room: Path, asked: list[str], image: set[str]) -> dict[str, tuple[str, str]]:
    """Return those of the packages asked for that are locked far back: the locked version of each, and the newest.

    Only those count whose version nobody bounds from above, and that are not in the image.
    """
    free = {canonicalize_name(one.name): one for one in map(Requirement, asked) if _free(one)}
    locked = {name: version for name, version in _locked(room).items() if name in free and name not in image}
    newest = _about(room, list(locked))
    if not newest:
        return {}
    behind = {name: locked[name] for name, (version, _) in newest.items() if version != locked[name]}
    there = _about(room, [f"{name}=={version}" for name, version in behind.items()])
    return {
        name: (version, newest[name][0])
        for name, (version, made) in there.items()
        if made and newest[name][1] and date.fromisoformat(newest[name][1]) - date.fromisoformat(made) > FAR
    }


def _free(asked: Requirement) -> bool:
    return all(spec.operator in (">=", ">", "!=") for spec in asked.specifier)


def _locked(room: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in room.glob("requirements*.lock"):
        found |= versions_held(path.read_text(encoding="utf-8"))
    return found


def _about(room: Path, asked: list[str]) -> dict[str, tuple[str, str]]:
    """Return the version that an index has for each, and the day on which that came there, "" where it does not say."""
    if not asked:
        return {}
    with TemporaryDirectory(prefix="newest-") as folder:
        (Path(folder) / "asked.in").write_text("\n".join(asked), encoding="utf-8")
        (Path(folder) / "uv.toml").write_text((room / "uv.toml").read_text(encoding="utf-8"), encoding="utf-8")
        done = subprocess.run(
            [UV, "pip", "compile", *CHOOSE, "asked.in"],
            cwd=folder, capture_output=True, text=True, check=False, env=environment(),
        )  # fmt: skip
    if done.returncode:
        return {}
    return {
        canonicalize_name(entry["name"]): (str(entry["version"]), _day(entry))
        for entry in tomllib.loads(done.stdout).get("packages", [])
    }


def _day(entry: dict[str, object]) -> str:
    wheels = entry.get("wheels")
    times = [str(wheel.get("upload-time", ""))[:10] for wheel in wheels] if isinstance(wheels, list) else []
    return max(times, default="")
