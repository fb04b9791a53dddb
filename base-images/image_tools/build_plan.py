"""Turn a row of the catalogue into a build plan, a folder that the Dockerfile reads, and the options of the build."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .catalog import (
    BUILD,
    DEFAULT_PLATFORM,
    FOLDER,
    ImageError,
    Pin,
    installed_pins,
    lock_path,
    matches,
    read_lock,
    sha256_of,
    target_environment,
    toolchain_path,
)

LABEL_PREFIX, OCI_PREFIX = "org.gpu-repo-family", "org.opencontainers.image"
MOUNTED = ("ca", "cache", "debian", "gpu_smoke", "kit", "modules", "plan", "recipe")  # the folders of /build
VERSIONS = ("framework", "framework_version", "cuda", "cudnn", "nccl")
FILE_TIME = 1577836800  # as in recipe/install/file_times.py


def created(name: str) -> int:
    """Return the time of the last commit of what an image is made from, in seconds since 1970 (0 without git)."""
    paths = ["Dockerfile", "recipe", "pip_settings.py", "gpu_smoke", "ca", "toolchain", "catalog.yml", name]
    command = ["git", "log", "-1", "--format=%ct", "--", *paths]
    result = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    return int(result.stdout.strip() or 0) if result.returncode == 0 else 0


def layer_of(catalog: dict[str, Any], package: str) -> str:
    """Return the name of the first layer that names the package."""
    for layer in catalog["layers"]:
        if matches(package, layer["packages"]):
            return str(layer["name"])
    raise ImageError(f"base-images/catalog.yml: no layer takes the package {package}; the last layer needs '*'")


def platform_of(row: dict[str, Any]) -> str:
    """Return the platform that a row was chosen for; without a choice, linux/amd64."""
    return str(row.get("platform", DEFAULT_PLATFORM))


def trims_for(catalog: dict[str, Any], row: dict[str, Any], packages: Iterable[str]) -> list[dict[str, Any]]:
    """Return the trim rules of a row that concern any of the packages."""
    names = list(packages)
    own = (rule for rule in catalog["trims"] if row["name"] in rule.get("images", [row["name"]]))
    return [rule for rule in own if any(matches(name, rule["packages"]) for name in names)]


def requirements_text(pins: Iterable[Pin]) -> str:
    """Return the pins as a requirements file with hashes, one package per line."""
    lines = (
        f"{pin.name}=={pin.version} " + " ".join(f"--hash=sha256:{digest}" for digest in pin.hashes) for pin in pins
    )
    return "".join(f"{line}\n" for line in lines)


def image_facts(catalog: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Return what /opt/base/image.json says: flat, from the very row that builds the image."""
    of_the_row = ("name", *VERSIONS, "driver_min", "driver_full", "compute_capabilities")
    return {key: row[key] for key in of_the_row} | {
        "python": catalog["python"],
        "platform": platform_of(row),
        "cuda_drivers": catalog["cuda_drivers"],
        "lock_sha256": sha256_of(lock_path(row["name"])),
        "created": datetime.fromtimestamp(created(row["name"]), UTC).isoformat(),
    }


def labels(catalog: dict[str, Any], row: dict[str, Any]) -> dict[str, str]:
    """Return the OCI labels of an image and its compatibility facts under the project's own prefix."""
    facts, kinds = image_facts(catalog, row), {"sass": "sm_", "ptx": "compute_"}
    made_for = [f"{kinds[kind]}{value}" for kind in kinds for value in row["compute_capabilities"][kind]]
    own = {key: facts[key] for key in (*VERSIONS, "driver_min", "driver_full", "lock_sha256")}
    own["compute_capabilities"] = " ".join(made_for).replace(".", "")
    standard = {
        "title": row["name"],
        "description": row["title"],
        "version": catalog["release"],
        "created": facts["created"],
        "base.name": catalog["operating_system"],
    }
    return {f"{OCI_PREFIX}.{key}": str(value) for key, value in standard.items()} | {
        f"{LABEL_PREFIX}.{key.replace('_', '-')}": str(value) for key, value in own.items()
    }


def write_plan(catalog: dict[str, Any], row: dict[str, Any], folder: Path) -> None:
    """Write the plan of one image: requirements and trims per layer, and the files of /opt/base."""
    platform = platform_of(row)
    pins = installed_pins(catalog, row["name"], platform)
    shutil.rmtree(folder, ignore_errors=True)
    for layer in catalog["layers"]:
        mine = [pin for key, pin in sorted(pins.items()) if layer_of(catalog, key) == layer["name"]]
        target = folder / layer["name"]
        target.mkdir(parents=True)
        (target / "requirements.txt").write_text(requirements_text(mine))
        rules = trims_for(catalog, row, (pin.name for pin in mine))
        (target / "trims.json").write_text(json.dumps(rules, indent=1, sort_keys=True) + "\n")
    write_devel_plan(catalog, row, pins, folder / "devel")
    # What compiles C when it starts: for these the build compiles it, with a compiler that no image has.
    (folder / "modules").mkdir()
    (folder / "modules" / "asked").write_text("".join(f"{name}\n" for name in ("triton",) if name in pins))
    write_debian_plan(row, folder)
    write_root(folder / "root")
    facts = folder / "facts"
    facts.mkdir()
    (facts / "image.json").write_text(json.dumps(image_facts(catalog, row), indent=2) + "\n")
    (facts / "constraints.txt").write_text("".join(f"{key}=={pin.version}\n" for key, pin in sorted(pins.items())))
    shutil.copyfile(lock_path(row["name"]), facts / "requirements.lock")


def write_debian_plan(row: dict[str, Any], folder: Path) -> None:
    """Write `debian` (other sources for apt: OS_SOURCES) and `refresh` (for the layer of updates) under a folder.

    A new day makes the layer of updates again and leaves the layers below as they are. Raises ImageError.
    """
    sources = os.environ.get("OS_SOURCES")
    (folder / "debian").mkdir()
    (folder / "refresh").mkdir()
    try:
        (folder / "debian" / "sources.list").write_text(Path(sources).read_text() if sources else "")
    except (OSError, UnicodeDecodeError) as error:
        raise ImageError(f"OS_SOURCES={sources}: cannot read the sources for apt: {error}") from error
    (folder / "refresh" / "day").write_text(f"{datetime.now(UTC):%Y-%m-%d}\n")
    (folder / "refresh" / "apt").write_text("".join(f"{name}\n" for name in row.get("apt", [])))


def write_root(folder: Path) -> None:
    """Write /etc/hosts and the folders of /build, with times and modes that no day and no umask changes."""
    for name in ("etc", *(f"build/{name}" for name in MOUNTED)):
        (folder / name).mkdir(parents=True)
    shutil.copyfile(FOLDER / "recipe" / "hosts", folder / "etc" / "hosts")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (FILE_TIME, FILE_TIME))


def write_devel_plan(catalog: dict[str, Any], row: dict[str, Any], pins: dict[str, Pin], folder: Path) -> None:
    """Write what the devel image adds: packages to unpack again, the globs to take from them, and nvcc."""
    rules = [rule for rule in trims_for(catalog, row, pins) if rule.get("devel")]
    patterns = {pattern for rule in rules for pattern in rule["packages"]}
    mine = [pin for key, pin in sorted(pins.items()) if matches(key, patterns)]
    folder.mkdir()
    (folder / "requirements.txt").write_text(requirements_text(mine))
    globs = sorted({pattern for rule in rules for pattern in rule["remove"]})
    (folder / "restore.json").write_text(json.dumps(globs, indent=1) + "\n")
    compiler = read_lock(toolchain_path(row)).values() if toolchain_path(row).is_file() else ()
    environment = target_environment(catalog, platform_of(row))
    applicable = (pin for pin in compiler if pin.applies(environment))
    (folder / "toolchain.txt").write_text(requirements_text(applicable))


def build_options(catalog: dict[str, Any], row: dict[str, Any], registry: str, stage: str = "runtime") -> list[str]:
    """Return the options of `docker buildx build` for a row whose plan is written; `stage` is runtime or devel."""
    with_nvcc = stage == "devel" and toolchain_path(row).is_file()
    machine_code = row["compute_capabilities"]["sass"]
    tag = str(catalog["release"]) + ("" if stage == "runtime" else f"-{stage}")
    arguments = {
        "OS_IMAGE": os.environ.get("OS_IMAGE") or catalog["operating_system"],
        "UNKNOWN_ROOTS": os.environ.get("UNKNOWN_ROOTS") or "reject",
        "DRIVER_MIN": row["driver_min"],
        "TORCH_ARCHITECTURES": " ".join(machine_code),
        "CMAKE_ARCHITECTURES": ";".join(f"{value.replace('.', '')}-real" for value in machine_code),
        "SOURCE_DATE_EPOCH": created(row["name"]),
    }
    return [
        f"--target={'devel-cuda' if with_nvcc else stage}",
        f"--platform={platform_of(row)}",
        f"--build-context=plan={BUILD / row['name']}",
        *(f"--build-arg={name}={value}" for name, value in arguments.items()),
        *(f"--label={name}={value}" for name, value in labels(catalog, row).items()),
        f"--tag={registry}/{row['name']}:{tag}",
        str(FOLDER),
    ]
