"""Bring weights and their lock to a registry or a bucket, where another repository can name them."""

from __future__ import annotations

import re
from pathlib import Path

from .lockfile import LOCK, Lock
from .problems import AWAY, WRONG_USE, WeightsError, say
from .sources import bucket_of, image_digest, run
from .wanted import shown, without_login


def push(folder: Path, lock: Lock, destination: str) -> tuple[str, str]:
    """Bring weights to a destination; return source and revision for weights.toml. Raises WeightsError."""
    scheme, _, rest = destination.partition("://")
    if scheme == "oci":
        return _to_image(folder, lock, rest)
    if scheme in ("s3", "gs"):
        _to_bucket(folder, lock, destination)
        return without_login(destination), ""
    how = "weights are pushed to oci://, s3:// and gs://; scripts/weights fetch --into fills a folder"
    raise WeightsError(f"{shown(destination)}: {how}", WRONG_USE)


def _to_image(folder: Path, lock: Lock, reference: str) -> tuple[str, str]:
    """Push a real image, which Kubernetes can mount: files below /models, a layer for each name of weights."""
    if not (found := re.fullmatch(r"([\w.-]+(?::\d+)?(?:/[\w.-]+)+):[\w.-]+", reference)):
        raise WeightsError(f"oci://{reference}: write oci://HOST/REPOSITORY:TAG", WRONG_USE)
    what = f"oci://{reference}"
    copies = "".join(f"COPY {one.name} /models/{one.name}\n" for one in lock.weights)
    text = f"FROM scratch\nCOPY {LOCK} /models/\n{copies}"
    run(["docker", "build", "--quiet", "--tag", reference, "--file", "-", str(folder)], what, text)
    run(["docker", "push", "--quiet", reference], what)
    return f"oci://{found[1]}", image_digest(reference, found[1])


def _to_bucket(folder: Path, lock: Lock, address: str) -> None:
    """Copy the files, then the lock: one that lies there from before is refused with other files by who reads it."""
    fs, filesystem, root = bucket_of(address)
    try:
        for path in (*lock.files(), LOCK):
            say(f"{path}: uploading")
            fs.copy_files(str(folder / path), f"{root}/{path}", destination_filesystem=filesystem)
    except OSError as error:
        raise WeightsError(f"{shown(address)} was not written: {' '.join(str(error).split())[:300]}", AWAY) from None
