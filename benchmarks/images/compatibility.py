"""Which packages that people add fit which image: `make compatibility` writes base-images/compatibility.json.

Each package of the catalogue's list is resolved with uv under each row's constraints, wheels only, for the image's
Python; then checked by the rules of base-install, and by the CUDA libraries that its own files ask for.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from base_install.fit import Image, misfits, read_image
from image_tools.catalog import FOLDER, live_rows, lock_path, program, read_catalog, sha256_of
from image_tools.plan import write_plan
from packaging.utils import canonicalize_name
from packaging.version import Version

from benchmarks.images.elf_needs import needed
from benchmarks.result_files import write_result

ROOT = Path(__file__).resolve().parents[2]
UV = program("uv")
RESULT = FOLDER / "compatibility.json"
AT_ONCE = 6  # what takes time is the index
PLATFORM = "x86_64-manylinux_2_40"
# Libraries whose number is that of CUDA; a file names them where it links them and where it opens them.
SONAME = re.compile(rb"lib(?:cudart|cublas|cublasLt|nvrtc)\.so\.(\d{2})\b")
SERIES_BACK = 8
FRAMEWORKS = {"torch", "tensorflow"}
CHUNK, OVERLAP = 1 << 22, 64


@dataclass(frozen=True)
class Fit:
    """What a row takes of a package: its version, "" for none, and why not the newest one."""

    version: str
    why: str


def asked(name: str, spec: str, cuda: str) -> str:
    """Return what a person writes for a package on a row; NN in it is the row's CUDA."""
    return (spec or name).replace("NN", cuda.split(".")[0])


def platform(python: str) -> list[str]:
    """Return uv's options for the images: wheels alone, for their Python and their system."""
    return ["--python-version", python, "--python-platform", PLATFORM, "--only-binary", ":all:"]


def resolve(
    requirement: str, python: str, constraints: Path | None = None, *options: str
) -> tuple[dict[str, str], str]:
    """Return the versions that fit together, and uv's reason where none do."""
    command = [UV, "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--no-emit-index-url", *options]
    command += [*platform(python), "-"]
    command += ["--constraint", str(constraints)] if constraints else []
    done = subprocess.run(command, input=requirement, capture_output=True, text=True, check=False)
    pins = dict(re.findall(r"(?m)^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==(\S+)", done.stdout))
    return pins, "" if pins else re.sub(r"\{[^}]*\}", "", " ".join(done.stderr.split()))


def reason(text: str, name: str) -> str:
    """Return in short why nothing fits, out of uv's words."""
    if "no wheels" in text and f"{name} has no wheels" in text:
        return "no wheel for this Python"
    chains = re.findall(r"depends on (?:one of: )?([^,]+?) and ([^,]+?), we can conclude", text)
    for wants, has in reversed(chains):
        if wants.split("==")[0].split(">")[0].split("<")[0] == has.split("==")[0]:
            return f"wants {wants}; the image has {has}"
    found = re.search(r"depends on ([a-z0-9._-]+[<>=!~][^\s,]*)", text)
    return f"wants {found[1]}" if found else "no version fits"


@cache
def newest(requirement: str, name: str, python: str) -> str:
    """Return the newest version that has a wheel for the image's Python, "" for none."""
    return resolve(requirement, python, None, "--no-deps")[0].get(name, "")


@cache
def brings(requirement: str, python: str) -> frozenset[str]:
    """Return the packages that come with a package where nothing holds them."""
    return frozenset(resolve(requirement, python)[0])


def majors(names: bytes) -> set[int]:
    """Return the CUDA majors of the libraries that are named."""
    return {int(number) for number in SONAME.findall(names)}


def linked(folder: Path) -> set[int]:
    """Return the CUDA majors that the libraries in a folder are linked to."""
    return {major for library in folder.rglob("*.so*") for major in majors(b"\0".join(needed(library)))}


def named(folder: Path) -> set[int]:
    """Return the CUDA majors that the libraries in a folder name: also those they open while running."""
    found: set[int] = set()
    for library in folder.rglob("*.so*"):
        with library.open("rb") as file:
            rest = b""
            while chunk := file.read(CHUNK):
                found |= majors(rest + chunk)
                rest = chunk[-OVERLAP:]
    return found


@cache
def cuda_of(name: str, version: str, python: str) -> frozenset[int]:
    """Return the CUDA majors that the files of a package are made for; none where they name none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [UV, "pip", "install", "--quiet", "--no-deps", "--no-cache", "--target", folder, *platform(python)]
        done = subprocess.run([*command, f"{name}=={version}"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"compatibility: {name} {version} cannot be fetched: {done.stderr.strip()[-300:]}")
        return frozenset(linked(Path(folder)) or named(Path(folder)))


def refusal(name: str, pins: dict[str, str], image: Image, python: str) -> str:
    """Return why base-install or the package's own files refuse what uv resolved, "" where they do not."""
    versions = {canonicalize_name(package): Version(version) for package, version in sorted(pins.items())}
    if refused := next(misfits(versions, image), ""):
        return short(refused, name)
    made_for = cuda_of(name, pins[name], python)
    if made_for and int(image.cuda) not in made_for:
        return f"is built for CUDA {min(made_for)}; the image has CUDA {image.cuda}"
    return ""


def short(phrase: str, name: str) -> str:
    """Return a refusal of base-install in the words of a table."""
    package, _, rest = phrase.partition(": ")
    return rest if package.split()[0] == name else f"brings {package}: {rest}"


def older(requirement: str, version: str, image: Image, constraints: Path, python: str) -> str:
    """Return the newest version of an older series that the image takes, "" where a few series back there is none."""
    for _ in range(SERIES_BACK):
        series = ".".join(version.split(".")[:2])
        pins, _ = resolve(f"{requirement}<{series}", python, constraints)
        if requirement not in pins:
            return ""
        version = pins[requirement]
        if not refusal(requirement, pins, image, python):
            return version
    return ""


def fit(name: str, spec: str, row: dict[str, Any], image: Image, constraints: Path, python: str) -> Fit:
    """Return what a row takes of a package."""
    requirement = asked(name, spec, row["cuda"])
    package = re.split(r"[\[<>=! ]", requirement)[0]
    print(f"compatibility: {requirement} on {row['name']}", file=sys.stderr)
    if canonicalize_name(package) in image.held:
        return Fit(str(image.held[canonicalize_name(package)]), "in the image")
    latest = newest(requirement, package, python)
    if not latest:
        return Fit("", "no wheel for this Python")
    if brought := sorted(FRAMEWORKS & brings(requirement, python) - image.held.keys()):
        return Fit("", f"needs {brought[0]}, which the image does not contain")
    pins, _ = resolve(requirement, python, constraints)
    if pins.get(package) == latest:
        refused = refusal(package, pins, image, python)
        if refused and "[" not in requirement:
            version = older(requirement, latest, image, constraints, python)
            return Fit(version, f"{latest} {refused}" if version else refused)
        return Fit("" if refused else latest, refused)
    _, text = resolve(f"{requirement}=={latest}", python, constraints)
    why = f"{latest} {reason(text, package)}"
    refused = refusal(package, pins, image, python) if pins else ""
    return Fit("" if refused or not pins else pins[package], why)


def measure(packages: list[dict[str, str]], names: list[str]) -> dict[str, Any]:
    """Return the result: every package on every row."""
    catalog = read_catalog()
    python = str(catalog["python"])
    rows = [row for row in live_rows(catalog) if not names or row["name"] in names]
    found: dict[str, dict[str, Any]] = {one["name"]: {} for one in packages}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {}
        for row in rows:
            write_plan(catalog, row, Path(folder) / row["name"])
            facts = Path(folder) / row["name"] / "facts"
            for one in packages:
                given = one["name"], one.get("requires", ""), row, read_image(facts), facts / "constraints.txt", python
                jobs[one["name"], row["name"]] = pool.submit(fit, *given)
        for (name, row_name), job in jobs.items():
            found[name][row_name] = asdict(job.result())
    locks = {row["name"]: sha256_of(lock_path(row["name"])) for row in rows}
    return {"locks": locks, "python": python, "packages": found}


def merged(before: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Return a result in which the rows that were measured now replace those of before."""
    rows = [row["name"] for row in live_rows(read_catalog())]
    locks, packages = before["locks"] | made["locks"], {}
    for name, found in made["packages"].items():
        both = before["packages"].get(name, {}) | found
        packages[name] = {row: both[row] for row in rows if row in both}
    return {"locks": {row: locks[row] for row in rows if row in locks}, "python": made["python"], "packages": packages}


def main() -> None:
    """Resolve everything again and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", action="append", default=[], help="rows; all when left out")
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    made = measure(read_catalog()["compatibility"], options.image)
    if options.image:
        made = merged(json.loads(options.result.read_text(encoding="utf-8")), made)
    write_result(options.result, made)


if __name__ == "__main__":
    main()
