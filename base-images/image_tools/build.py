"""Build the images, one row after another, and run the smoke test of a local image."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .catalog import DEFAULT_PLATFORM, ROOT, ImageError
from .check import check_rows
from .package_index import secret_pip_conf
from .plan import write_bake_file
from .platforms import asked, check_buildx, check_emulation, rows_on, suffix
from .roots import unknown_roots

GIGABYTE = 10**9
ROOM = 12 * GIGABYTE  # the largest row: 6.5 GB of layers, and its packages in the cache of the installer


def run(command: list[str], problem: str) -> None:
    """Run a command with its output shown; raise ImageError with `problem` when it fails."""
    try:
        subprocess.run(command, cwd=ROOT, check=True)
    except FileNotFoundError as error:
        raise ImageError(f"{command[0]} is not installed: {problem}") from error
    except subprocess.CalledProcessError as error:
        raise ImageError(f"{problem} ({' '.join(command[:4])} ended with {error.returncode})") from error


def engine_folder() -> Path:
    """Return where the engine keeps its data; raise ImageError when no engine answers."""
    command = ["docker", "info", "--format", "{{.DockerRootDir}}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        folder = result.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        folder = ""
    if not folder:  # without a server `docker info` may still end with 0
        host = os.environ.get("DOCKER_HOST", "the default socket")
        raise ImageError(f"no Docker Engine answers at {host}: start one, or set DOCKER_HOST to one that runs")
    return Path(folder)


def check_room(folder: Path, needed: int = ROOM) -> None:
    """Raise ImageError when the engine's disk cannot take one more image (bytes)."""
    if not folder.is_dir():
        return  # an engine on another machine: its disk cannot be seen from here
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ImageError(
            f"{folder}: {free / GIGABYTE:.1f} GB free, one image needs {needed / GIGABYTE:.0f} GB while it is built; "
            "make room with `docker image prune` and `docker builder prune`"
        )


def plan(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the plans and the bake file."""
    rows_on(catalog, arguments.image, asked(arguments))
    print(f"wrote {write_bake_file(catalog, arguments.registry, asked(arguments))}")


def build(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Build the chosen rows one after another; the installer's cache is dropped in between (KEEP_CACHE=1 keeps it)."""
    platform = asked(arguments)
    rows = rows_on(catalog, arguments.image, platform)
    check_rows(catalog, rows)
    folder = engine_folder()
    check_buildx()
    check_emulation(platform)
    bake_file = write_bake_file(catalog, arguments.registry, platform)
    for row in rows:
        check_room(folder)
        target = row["name"] + ("-devel" if arguments.devel else "")
        progress = "--progress=plain" if os.environ.get("CI") else "--progress=auto"
        with secret_pip_conf() as secret:
            command = ["docker", "buildx", "bake", "--file", str(bake_file), progress, *secret, "--load", target]
            run(command, f"the image {target} was not built (see above)")
        if not arguments.devel:
            warn_of_roots(local_tag(catalog, row["name"], arguments.registry, platform))
        if not os.environ.get("KEEP_CACHE"):
            prune = ["docker", "builder", "prune", "--force", "--filter", "type=exec.cachemount"]
            subprocess.run(prune, stdout=subprocess.DEVNULL, check=False)


def warn_of_roots(tag: str) -> None:
    """Warn of each root certificate for which `make promote` will reject an image."""
    command = ["docker", "run", "--rm", "--network=none", "--entrypoint", "cat", tag, "/opt/base/image.json"]
    told = ""
    for _ in range(3):  # a busy engine may lose what a short command prints
        told = told or subprocess.run(command, capture_output=True, text=True, check=True).stdout
    facts = json.loads(told)
    for root in unknown_roots(facts["certificates"]):
        named = f"{root['subject'] or 'a root'} (sha256 {root['sha256']})"
        print(
            f"warning: {tag} trusts {named}, which is neither Debian's nor in base-images/ca: `make promote` will "
            "reject it. It comes from the operating system image: put its *.crt into base-images/ca, or set OS_IMAGE",
            file=sys.stderr,
        )


def local_tag(catalog: dict[str, Any], name: str, registry: str, platform: str = DEFAULT_PLATFORM) -> str:
    """Return the tag under which `make images` leaves a row of a platform."""
    return f"{registry}/{name}:{catalog['release']}{suffix(platform)}"


def smoke(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Run `gpu-smoke --mode image` in the local image of each chosen row."""
    engine_folder()
    platform = asked(arguments)
    for row in rows_on(catalog, arguments.image, platform):
        tag = local_tag(catalog, row["name"], arguments.registry, platform)
        on = ["--network=none", "--platform", platform, tag]
        run(
            ["docker", "run", "--rm", *on, "/usr/local/bin/gpu-smoke", "--mode", "image"],
            f"{tag}: the smoke test failed or the image is not here; build it with `make images IMAGE={row['name']}`",
        )
