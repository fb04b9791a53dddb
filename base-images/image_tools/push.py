"""Push an image to its staging repository, under a tag named after its content, and note what was pushed."""

import argparse
import hashlib
import json
import subprocess
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import cosign, registry
from .build import check_engine, local_tag, save
from .catalog import BUILD, DEFAULT_REGISTRY, ROOT, ImageError
from .platforms import own_platform, rows_on
from .provenance import predicate
from .record import Pushed, pushed_file

VOLATILE_LABELS = ("org.opencontainers.image.created", "org.opencontainers.image.version")


def content_id(layers: list[str], config: dict[str, Any]) -> str:
    """Return what an image consists of, as 16 hexadecimal digits: its layers and how it runs, not when it was built.

    layers: the digests of the unpacked layers. config: that of the OCI.
    """
    kept = {key: config.get(key) or None for key in ("Env", "Entrypoint", "Cmd", "User", "WorkingDir")}
    labels = {key: value for key, value in (config.get("Labels") or {}).items() if key not in VOLATILE_LABELS}
    text = json.dumps([layers, kept, labels], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pushed_content(reference: str) -> str:
    """Return the content of an image in the registry. Raises ImageError."""
    found = registry.config(reference)
    return content_id(found.get("rootfs", {}).get("diff_ids", []), found.get("config") or {})


def staging_of(arguments: argparse.Namespace) -> str:
    """Return where images wait for their promotion: another repository than that of the releases."""
    home = str(arguments.registry)
    return arguments.staging or home + ("-staging" if "/" in home else "/staging")


def push_row(catalog: dict[str, Any], row: dict[str, Any], arguments: argparse.Namespace) -> Pushed:
    """Push the local image of a row to its staging tag, unless that tag holds the same content already."""
    name = row["name"]
    tag, content = built(catalog, row, arguments)
    repository = f"{staging_of(arguments)}/{name}"
    BUILD.mkdir(parents=True, exist_ok=True)
    staging = f"{repository}:staging-{content}"
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        found = registry.find(staging)
        if found and pushed_content(f"{repository}@{found.digest}") != content:
            print(f"{staging}: holds another image ({found.digest}), which its name denies; pushing the right one")
            found = None
        if found:
            print(f"{staging}: the same content exists there, {found.digest}")
        else:
            registry.push_archive(save(tag, Path(folder)), staging)
            found = registry.look_up(staging)
            print(f"{staging}: pushed {found.digest}, {found.size / 1e6:.0f} MB in {len(found.layers)} layers")
    return Pushed(f"{repository}@{found.digest}", head(), datetime.now(UTC).isoformat(timespec="microseconds"))


def built(catalog: dict[str, Any], row: dict[str, Any], arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the local tag of a row, built for this registry or else for none, and its content. Raises ImageError."""
    tags = [local_tag(catalog, row["name"], home) for home in (arguments.registry, DEFAULT_REGISTRY)]
    for tag in tags:
        done = subprocess.run(["docker", "image", "inspect", tag], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            [found] = json.loads(done.stdout)
            return tag, content_id(found["RootFS"]["Layers"], found["Config"])
    raise ImageError(
        f"{tags[0]}: no such image here; build it with `make images IMAGE={row['name']} REGISTRY={arguments.registry}`"
    )


def push_signed(catalog: dict[str, Any], row: dict[str, Any], arguments: argparse.Namespace) -> Pushed:
    """Push a row; with a key, put its signature and how it was made beside it, both signed."""
    key = cosign.signer("staging", arguments.sign)
    pushed = push_row(catalog, row, arguments)
    if key:
        cosign.attest(pushed.image, cosign.SLSA, predicate(catalog, row, pushed), key)
        cosign.sign(pushed.image, key)
        print(f"{pushed.image}: signed, with how it was made")
    return pushed


def head() -> str:
    """Return the commit of this repository, with -dirty behind it where a file differs from it; "" without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def told_or_pushed(arguments: argparse.Namespace) -> Pushed:
    """Return the digest that was told, else what `make push` noted, here or in a file. Raises ImageError."""
    if arguments.digest:
        return Pushed(f"{staging_of(arguments)}/{arguments.image}@{arguments.digest}", head(), "")
    file = Path(getattr(arguments, "pushed", "") or pushed_file(arguments.image))
    try:
        return Pushed(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError) as error:
        again = f"run `make push IMAGE={arguments.image}` first, or give DIGEST=sha256:..."
        raise ImageError(f"{file}: no record of a push ({getattr(error, 'strerror', '') or error}): {again}") from error


def push(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Push the local image of each chosen row to a staging tag named after its content."""
    check_engine()
    for row in rows_on(catalog, arguments.image, own_platform()):
        pushed = push_signed(catalog, row, arguments)
        file = pushed_file(row["name"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(pushed)) + "\n")
