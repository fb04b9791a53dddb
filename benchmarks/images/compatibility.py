"""Which packages that people add fit which image: `make compatibility` writes base-images/<row>/compatibility.json.

Each package of the catalogue's list is resolved with uv under each row's constraints, wheels only, for the image's
Python; base-install's rules check its files. Where the newest version does not fit, older ones are tried.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from base_install.fit import Image, cuda_named_in, misfits, read_image
from image_tools.build_plan import write_plan
from image_tools.catalog import FOLDER, find_row, live_rows, lock_path, program, read_catalog, sha256_of
from packaging.utils import canonicalize_name
from packaging.version import Version

from benchmarks.harness import write_result

AT_ONCE, TRIES = 6, 8  # what takes time is the index; how many series of versions are tried
PLATFORM = "x86_64-manylinux_2_40"
FRAMEWORKS = {"torch", "tensorflow"}
Resolver = Callable[[str], dict[str, str]]  # of a requirement: the version of each package
MadeFor = Callable[[str, str], frozenset[str]]  # of a package and its version: the CUDA majors that its files name


@dataclass(frozen=True)
class Fit:
    """What a row takes of a package: its version, "" for none, and why not a newer one."""

    version: str
    why: str


def uv_pip(verb: str, python: str, *options: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run uv for the images: released wheels alone, for their Python and their system."""
    where = ["--python-version", python, "--python-platform", PLATFORM, "--only-binary=:all:", "--prerelease=disallow"]
    command = [program("uv"), "pip", verb, "--quiet", *where, *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@cache
def resolve(requirement: str, python: str, constraints: str = os.devnull) -> dict[str, str]:
    """Return the newest versions that fit together, under the image's or any, none where there are none."""
    options = ("--no-annotate", "--no-header", "--no-emit-index-url", "--constraint", constraints, "-")
    printed = uv_pip("compile", python, *options, text=requirement).stdout
    return dict(re.findall(r"(?m)^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==(\S+)", printed))


@cache
def cuda_of(name: str, version: str, python: str) -> frozenset[str]:
    """Return the CUDA majors that the libraries of a package name; none where they name none."""
    with tempfile.TemporaryDirectory() as folder:
        done = uv_pip("install", python, "--no-deps", "--no-cache", "--target", folder, f"{name}=={version}")
        if done.returncode:
            raise SystemExit(f"compatibility: {name} {version} cannot be fetched: {done.stderr.strip()[-300:]}")
        return frozenset(major for library in Path(folder).rglob("*.so*") for major in cuda_named_in(library))


def refusal(name: str, pins: dict[str, str], image: Image, made_for: MadeFor) -> str:
    """Return why base-install refuses what uv resolved; "" where it fits."""
    versions = {canonicalize_name(package): Version(version) for package, version in sorted(pins.items())}
    if refused := next(misfits(versions, image), ""):
        return refused
    majors = made_for(name, pins[name])
    if majors and image.cuda not in majors:
        return f"is built for CUDA {min(majors)}; the image has CUDA {image.cuda}"
    return ""


def fit(requirement: str, image: Image, anywhere: Resolver, in_image: Resolver, made_for: MadeFor) -> Fit:
    """Return what an image takes of a package: the newest version that nothing refuses."""
    name = canonicalize_name(re.split(r"[\[<>=! ]", requirement)[0])
    print(f"compatibility: {requirement} on {image.name}", file=sys.stderr)
    if name in image.held:
        return Fit(str(image.held[name]), "in the image")
    newest = anywhere(requirement)
    if lacking := sorted(FRAMEWORKS & newest.keys() - image.held.keys()):
        return Fit("", f"{newest[name]} needs {lacking[0]}, which the image does not contain")
    why, limit = "", ""
    for _ in range(TRIES):
        pins = in_image(f"{requirement}{limit}")
        if name not in pins:
            break
        if not (refused := refusal(name, pins, image, made_for)):
            return Fit(pins[name], why)
        why = why or f"{pins[name]} {refused}"
        limit = f"<{'.'.join(pins[name].split('.')[:2])}"
    return Fit("", why or "no version with a wheel fits the image's versions")


def measure(catalog: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a row: every package of the list."""
    python = str(catalog["python"])
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        write_plan(catalog, row, Path(folder))
        facts = Path(folder) / "facts"
        in_image = partial(resolve, python=python, constraints=str(facts / "constraints.txt"))
        given = read_image(facts), partial(resolve, python=python), in_image, partial(cuda_of, python=python)
        jobs = {}
        for one in catalog["compatibility"]:
            requirement = one.get("requires", one["name"]).replace("NN", row["cuda"].split(".")[0])
            jobs[one["name"]] = pool.submit(fit, requirement, *given)
        found = {name: asdict(job.result()) for name, job in jobs.items()}
    return {"lock": sha256_of(lock_path(row["name"])), "python": python, "packages": found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="", help="one row; all when left out")
    catalog, image = read_catalog(), parser.parse_args().image
    for row in [find_row(catalog, image)] if image else live_rows(catalog):
        write_result(FOLDER / row["name"] / "compatibility.json", measure(catalog, row))
