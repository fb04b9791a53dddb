"""The requirements as they are under the versions of the image, and their locks; what does not fit is reported."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import tomlkit
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from adoption.packages import Asked, Packaging

UV = Path(sys.executable).with_name("uv")
LIMIT = 300  # seconds for one run of scripts/lock
HEAD = {
    "": "# What scripts/lock resolves under the versions of the base image. Yours to edit.\n",
    "-gpu": "# What scripts/lock adds for a GPU (requirements-gpu.lock). Yours to edit.\n",
    "-dev": "# The tools of development and tests (requirements-dev.lock). Yours to edit.\n",
}
SAME_AS = {"tensorflow-gpu": "tensorflow", "tensorflow-cpu": "tensorflow", "pytorch": "torch"}


@dataclass
class Locked:
    """How locking ended: what was changed to fit, and what is left to do."""

    notes: list[str] = field(default_factory=list)
    to_do: list[str] = field(default_factory=list)


def make_room(room: Path, render: Path, pyproject: Path) -> None:
    """Make a folder to lock in: the template's files and what pyproject.toml requires; uv builds nothing there."""
    shutil.copytree(render, room)
    (room / "uv.toml").write_text("[pip]\nno-build = true\n", encoding="utf-8")
    try:
        project = tomllib.loads(pyproject.read_text(encoding="utf-8-sig")).get("project", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return
    project = {key: value for key, value in project.items() if key not in ("readme", "license")}
    (room / "pyproject.toml").write_text(tomlkit.dumps({"project": project}), encoding="utf-8")


def image_versions(constraints: str) -> dict[str, str]:
    """Return the versions that the image contains, by package."""
    found = re.findall(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)==([^ ;\s]+)", constraints)
    return {canonicalize_name(name): version for name, version in found}


def fit(asked: Asked, versions: dict[str, str]) -> tuple[str, str]:
    """Return a requirement as it goes into the locks, and a note if the image's version replaces its own."""
    name = SAME_AS.get(asked.name, asked.name)
    version = versions.get(name)
    if version is None or (name == asked.name and asked.requirement.specifier.contains(version, prereleases=True)):
        return str(asked.requirement), ""
    free = Requirement(str(asked.requirement))
    free.name, free.specifier = name, SpecifierSet()
    return str(free), f"{asked.source} requires {asked.requirement}; the image has {name} {version}"


def loosened(text: str) -> str:
    """Return a requirement without its pins and upper bounds: from the version that it names upward."""
    requirement = Requirement(text)
    lower = [str(one) for one in requirement.specifier if one.operator in (">=", ">", "!=")]
    lower += [f">={one.version.removesuffix('.*').partition('+')[0]}" for one in requirement.specifier
              if one.operator in ("==", "~=", "===")]  # fmt: skip
    requirement.specifier = SpecifierSet(",".join(lower))
    return str(requirement)


def reads_pyproject(packaging: Packaging, versions: dict[str, str]) -> bool:
    """Return whether scripts/lock can read pyproject.toml: it lists the packages, and each fits the image."""
    return packaging.static and not any(fit(asked, versions)[1] for asked in packaging.run)


def resolve(room: Path, prefix: str, packaging: Packaging, asks: bool, image: str) -> Locked:
    """Write the requirements and lock them: as they are, else without pins, else without the repository's own."""
    versions = image_versions((room / "constraints.txt").read_text(encoding="utf-8"))
    start = {path.name: path.read_bytes() for path in room.glob("requirements*.lock")}
    run = [] if asks else [fit(asked, versions) for asked in packaging.run]
    dev = [fit(asked, versions) for asked in packaging.dev if asked.name not in packaging.names() | set(versions)]
    result = Locked([note for _, note in [*run, *dev] if note])
    texts = [text for text, _ in run], [text for text, _ in dev]
    write_inputs(room, prefix, *texts)
    if not (reason := run_lock(room)):
        return result
    if not asks and [loosened(text) for text in texts[0] + texts[1]] != texts[0] + texts[1]:
        texts = [loosened(text) for text in texts[0]], [loosened(text) for text in texts[1]]
        write_inputs(room, prefix, *texts)
        if not (again := run_lock(room)):
            result.notes.append(f"the versions that the repository pins do not fit, so newer ones are locked: {reason}")
            return result
        reason = again
    for name, data in start.items():
        (room / name).write_bytes(data)
    write_inputs(room, prefix, [], [], [f"# {text}" for text in texts[0] + texts[1]])
    result.to_do.append(
        f"the packages do not fit the image {image}, so they are comments in {prefix}.in; change them and run "
        f"scripts/lock, or take another image (framework=..., gpu_driver=...): {reason}"
    )
    return result


def write_inputs(room: Path, prefix: str, run: list[str], dev: list[str], comments: list[str] | None = None) -> None:
    """Write the files that scripts/lock reads, with the template's own packages."""
    ours = tomllib.loads((room / "pyproject.toml.template").read_text(encoding="utf-8"))
    names = {canonicalize_name(Requirement(text).name) for text in run} | {"gpu-repo-runtime"}  # wheels/ names it
    base = [t for t in ours["project"]["dependencies"] if canonicalize_name(Requirement(t).name) not in names]
    tools = ours["dependency-groups"]["dev"]
    known = {canonicalize_name(Requirement(text).name) for text in tools}
    more = [text for text in dev if canonicalize_name(Requirement(text).name) not in known]
    gpu = ours["project"].get("optional-dependencies", {}).get("gpu", [])
    for end, lines in (("", [*run, *base]), ("-gpu", gpu), ("-dev", [*tools, *more])):
        if lines or end != "-gpu":
            text = HEAD[end] + "".join(f"{line}\n" for line in [*lines, *((comments or []) if not end else [])])
            (room / f"{prefix}{end}.in").write_text(text, encoding="utf-8")


def run_lock(room: Path) -> str:
    """Run the child's scripts/lock with this environment's uv; return uv's reason if it fails, else ""."""
    uv = room / ".venv" / "bin" / "uv"
    uv.parent.mkdir(parents=True, exist_ok=True)
    if not uv.exists():
        uv.symlink_to(UV)
    kept = {name: text for name, text in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_NO_CONFIG")}
    try:
        done = subprocess.run(
            ["bash", "scripts/lock"], cwd=room, capture_output=True, text=True, env=kept, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"scripts/lock took more than {LIMIT} s"
    return "" if done.returncode == 0 else reason_of(done.stderr or done.stdout)


def reason_of(message: str) -> str:
    """Return uv's explanation on one line."""
    text = re.sub(r"\s+", " ", re.sub(r"[╰─▶×│├]+", " ", message.split("hint:")[0])).strip()
    found = re.search(r"(Because .*?(?:unsatisfiable|cannot be used)\.(?=\s|$)|Failed to .*?\.(?=\s|$))", text)
    return (found[1] if found else text)[:400]


def take_out(room: Path, clone: Path, prefix: str) -> list[str]:
    """Copy the locks and their inputs into the clone; return their names."""
    paths = sorted([*room.glob("requirements*.lock"), *room.glob(f"{prefix}*.in")])
    for path in paths:
        shutil.copyfile(path, clone / path.name)
    return [path.name for path in paths]
