"""Build the images, one row after another."""

import argparse
import os
import subprocess
from pathlib import Path
from typing import Any

from .build_plan import build_options, write_plan
from .catalog import BUILD, ROOT, ImageError
from .check import check_rows
from .package_index import secret_pip_conf
from .platforms import own_platform, rows_on


def run(command: list[str], problem: str) -> None:
    """Run a command with its output shown; raise ImageError with `problem` when it fails."""
    try:
        subprocess.run(command, cwd=ROOT, check=True)
    except FileNotFoundError as error:
        raise ImageError(f"{command[0]} is not installed: {problem}") from error
    except subprocess.CalledProcessError as error:
        raise ImageError(f"{problem} ({' '.join(command[:4])} ended with {error.returncode})") from error


def check_engine() -> None:
    """Raise ImageError where no Docker Engine answers."""
    # Without a server `docker info` may still end with 0.
    command = ["docker", "info", "--format", "{{.ServerVersion}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        host = os.environ.get("DOCKER_HOST", "the default socket")
        raise ImageError(f"no Docker Engine answers at {host}: start one, or set DOCKER_HOST to one that runs")


def build(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Build the chosen rows one after another; the installer's cache is dropped in between (KEEP_CACHE=1 keeps it)."""
    rows = rows_on(catalog, arguments.image, own_platform())
    check_rows(catalog, rows)
    check_engine()
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        raise ImageError("docker buildx is not installed here: install it (Debian: apt-get install docker-buildx)")
    command = ["docker", "buildx", "build", "--load", "--progress=plain" if os.environ.get("CI") else "--progress=auto"]
    for row in rows:
        write_plan(catalog, row, BUILD / row["name"])
        options = build_options(catalog, row, arguments.registry, "devel" if arguments.devel else "runtime")
        with secret_pip_conf() as secret:
            run([*command, *secret, *options], f"the image {row['name']} was not built (see above)")
        if not os.environ.get("KEEP_CACHE"):
            prune = ["docker", "builder", "prune", "--force", "--filter", "type=exec.cachemount"]
            subprocess.run(prune, stdout=subprocess.DEVNULL, check=False)


def local_tag(catalog: dict[str, Any], name: str, registry: str) -> str:
    """Return the tag under which `make images` leaves a row."""
    return f"{registry}/{name}:{catalog['release']}"


def save(reference: str, folder: Path) -> Path:
    """Write an image of the local engine into a file of a folder. Raises ImageError."""
    archive = folder / "image.tar"
    run(["docker", "save", "--output", str(archive), reference], f"{reference}: no such image here")
    return archive
