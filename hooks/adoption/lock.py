"""The requirements as they are under the versions of the image, and their locks; what does not fit is reported."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import tomlkit
from gpu_repo_runtime.update.locks import versions
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from adoption.packages import Asked, Packaging, toml_of

HEAD = {
    "": "# What scripts/lock resolves under the versions of the base image. Yours to edit.\n",
    "-gpu": "# What scripts/lock adds for a GPU (requirements-gpu.lock). Yours to edit.\n",
    "-dev": "# The tools of development and tests (requirements-dev.lock). Yours to edit.\n",
}
SAME_AS = {"tensorflow-gpu": "tensorflow", "tensorflow-cpu": "tensorflow", "pytorch": "torch"}


def fit(asked: Asked, image: dict[str, str]) -> tuple[str, str]:
    """Return a requirement as it goes into the locks, and a note if the image's version replaces its own."""
    name = SAME_AS.get(asked.name, asked.name)
    version = image.get(name)
    if version is None or (name == asked.name and asked.requirement.specifier.contains(version, prereleases=True)):
        return str(asked.requirement), ""
    free = Requirement(str(asked.requirement))
    free.name, free.specifier = name, SpecifierSet()
    return str(free), f"{asked.source} requires {asked.requirement}; the image has {name} {version}"


def is_readable(packaging: Packaging, image: dict[str, str]) -> bool:
    """Return whether scripts/lock can read pyproject.toml: it lists the packages, and each fits the image."""
    return packaging.is_static and not any(fit(asked, image)[1] for asked in packaging.run)


def lock_packages(clone: Path, render: Path, ours: Path, packaging: Packaging, prefix: str, asks: bool) -> list[str]:
    """Write the requirements and their locks into the clone; return their names.

    They are resolved in a folder aside, by one run of scripts/lock; `ours` is the template's pyproject.toml. What does
    not fit becomes comments, with uv's reason in the to-do list of `packaging`.
    """
    room = render.with_name("room")
    shutil.copytree(render, room)
    (room / "uv.toml").write_text("[pip]\nno-build = true\n", encoding="utf-8")
    project = toml_of((clone / "pyproject.toml").read_text("utf-8-sig")) if (clone / "pyproject.toml").is_file() else {}
    listed = {key: value for key, value in project.get("project", {}).items() if key not in ("readme", "license")}
    (room / "pyproject.toml").write_text(tomlkit.dumps({"project": listed} if listed else {}), encoding="utf-8")
    image = versions((room / "constraints.txt").read_text(encoding="utf-8"))
    run = [] if asks else [fit(asked, image) for asked in packaging.run]
    dev = [fit(asked, image) for asked in packaging.dev if asked.name not in packaging.names() | image.keys()]
    packaging.notes += [note for _, note in [*run, *dev] if note]
    inputs = {end: room / f"{prefix}{end}.in" for end in HEAD}
    write_inputs(inputs, ours, [text for text, _ in run], [text for text, _ in dev])
    if reason := run_lock(room):
        for path in render.glob("requirements*.lock"):
            shutil.copyfile(path, room / path.name)
        write_inputs(inputs, ours, [], [])
        with inputs[""].open("a", encoding="utf-8") as file:
            file.writelines(f"# {text}\n" for text, _ in run + dev)
        packaging.to_do.append(
            f"the packages do not fit the image, so they are comments in {prefix}.in; change them and run "
            f"scripts/lock, or take another image (framework=..., gpu_driver=...): {reason}"
        )
    paths = sorted([*room.glob("requirements*.lock"), *room.glob(f"{prefix}*.in")])
    for path in paths:
        shutil.copyfile(path, clone / path.name)
    return [path.name for path in paths]


def write_inputs(inputs: dict[str, Path], ours: Path, run: list[str], dev: list[str]) -> None:
    """Write the files that scripts/lock reads: the repository's packages, then those of the template's `ours`."""
    known = tomllib.loads(ours.read_text(encoding="utf-8"))
    project, tools = known["project"], known["dependency-groups"]["dev"]
    asked = {canonicalize_name(Requirement(text).name) for text in run} | {"gpu-repo-runtime"}  # wheels/ names it
    base = [text for text in project["dependencies"] if canonicalize_name(Requirement(text).name) not in asked]
    had = {canonicalize_name(Requirement(text).name) for text in tools}
    more = [text for text in dev if canonicalize_name(Requirement(text).name) not in had]
    lines = {"": run + base, "-gpu": project.get("optional-dependencies", {}).get("gpu", []), "-dev": tools + more}
    for end, texts in lines.items():
        if texts or end != "-gpu":
            inputs[end].write_text(HEAD[end] + "".join(f"{text}\n" for text in texts), encoding="utf-8")


def run_lock(room: Path) -> str:
    """Run the child's scripts/lock with this environment's uv; return uv's reason if it fails, else ""."""
    programs = room / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("uv", "python"):  # scripts/lock needs both, and no package
        (programs / name).symlink_to(Path(sys.executable).with_name(name))
    kept = {name: text for name, text in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_NO_CONFIG")}
    done = subprocess.run(["bash", "scripts/lock"], cwd=room, capture_output=True, text=True, env=kept, check=False)
    text = re.sub(r"[\s╰─▶×│├]+", " ", (done.stderr or done.stdout).split("hint:")[0])
    found = re.search(r"Because .*?(unsatisfiable|cannot be used)\.(?=\s|$)|Failed to .*?\.(?=\s|$)", text)
    return (found[0] if found else text)[:400] if done.returncode else ""
