"""Bring weights and their lock to a registry, a bucket or a folder, where another repository can name them."""

from __future__ import annotations

import re
from pathlib import Path

from . import store
from .lockfile import LOCK, File, Lock, parsed
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
    if "://" in destination or destination.startswith("pypi:"):
        raise WeightsError(f"{shown(destination)}: weights go to oci://, s3://, gs:// or a folder", WRONG_USE)
    target = Path(destination).absolute()
    store.copy(folder, lock, target)
    return str(target), ""


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
    """Copy what the lock there does not name with the same SHA-256; the new lock comes last."""
    from pyarrow import fs

    filesystem, root = bucket_of(address)
    try:
        there = _lock_in(filesystem, root)
        if there and there != lock.files():
            filesystem.delete_file(f"{root}/{LOCK}")
        for path, file in lock.files().items():
            target = f"{root}/{path}"
            info = filesystem.get_file_info(target)
            if there.get(path) == file and info.size == file.size:
                continue
            say(f"{path}: uploading")
            filesystem.create_dir(target.rpartition("/")[0], recursive=True)
            fs.copy_files(str(folder / path), target, destination_filesystem=filesystem)
        with filesystem.open_output_stream(f"{root}/{LOCK}") as stream:
            stream.write(lock.text().encode())
    except OSError as error:
        raise WeightsError(f"{shown(address)} was not written: {' '.join(str(error).split())[:300]}", AWAY) from None


def _lock_in(filesystem: object, root: str) -> dict[str, File]:
    """Return the files of the lock in a bucket: a size alone does not tell one training from the next."""
    try:
        with filesystem.open_input_stream(f"{root}/{LOCK}") as file:  # type: ignore[attr-defined]
            return parsed(file.read().decode(), LOCK).files()
    except (FileNotFoundError, UnicodeDecodeError, WeightsError):
        return {}
