"""Build the images, one row after another."""

import argparse
import os
import subprocess
from pathlib import Path
from typing import Any

from .catalog import ROOT, ImageError
from .check import check_rows
from .package_index import secret_pip_conf
from .plan import write_bake_file
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
    """Raise ImageError where no Docker Engine answers, or the docker command has no buildx, which reads the plan."""
    # Without a server `docker info` may still end with 0.
    command = ["docker", "info", "--format", "{{.ServerVersion}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        host = os.environ.get("DOCKER_HOST", "the default socket")
        raise ImageError(f"no Docker Engine answers at {host}: start one, or set DOCKER_HOST to one that runs")
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        raise ImageError("docker buildx is not installed here: install it (Debian: apt-get install docker-buildx)")


def plan(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the plans and the bake file."""
    rows_on(catalog, arguments.image, own_platform())
    print(f"wrote {write_bake_file(catalog, arguments.registry, own_platform())}")


def build(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Build the chosen rows one after another; the installer's cache is dropped in between (KEEP_CACHE=1 keeps it)."""
    rows = rows_on(catalog, arguments.image, own_platform())
    check_rows(catalog, rows)
    check_engine()
    bake_file = write_bake_file(catalog, arguments.registry, own_platform())
    for row in rows:
        target = row["name"] + ("-devel" if arguments.devel else "")
        progress = "--progress=plain" if os.environ.get("CI") else "--progress=auto"
        with secret_pip_conf() as secret:
            command = ["docker", "buildx", "bake", "--file", str(bake_file), progress, *secret, "--load", target]
            run(command, f"the image {target} was not built (see above)")
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
