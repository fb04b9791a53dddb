"""Weights as an image: a real one, so that a container runtime mounts it, with a layer for each file below /models.

An artifact with an empty config is refused by Docker and skopeo, or mounts as an empty folder without a message.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .lockfile import LOCK, Lock
from .problems import Interrupted
from .progress import Progress, say
from .registry import MANIFEST, Registry
from .sources.image import TOP
from .sources.web import BLOCK

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_TITLE = "org.opencontainers.image.title"
TRIES = 3


@dataclass(frozen=True)
class Layer:
    """A tar with one file and no dates: the same file always gives the same layer."""

    path: str
    size_of_file: int
    source: Path | bytes

    @property
    def size(self) -> int:
        """Return the bytes of the tar."""
        return len(self._head()) + self.size_of_file + len(self._tail())

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of the tar."""
        yield self._head()
        with io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb") as file:
            while block := file.read(BLOCK):
                yield block
        yield self._tail()

    def digest(self) -> str:
        """Return the SHA-256 of the tar, which is that of the layer and of what is in it."""
        found = hashlib.sha256()
        for block in self.blocks():
            found.update(block)
        return f"sha256:{found.hexdigest()}"

    def _head(self) -> bytes:
        entry = tarfile.TarInfo(TOP + self.path)
        entry.size, entry.mode = self.size_of_file, 0o644
        return entry.tobuf(tarfile.PAX_FORMAT)

    def _tail(self) -> bytes:
        return bytes(-self.size_of_file % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)


def layers_of(folder: Path, lock: Lock) -> list[Layer]:
    """Return the layers of the weights in a folder, their lock first."""
    own = lock.text().encode()
    files = [Layer(path, file.size, folder / path) for path, file in lock.files().items()]
    return [Layer(LOCK, len(own), own), *files]


def push(folder: Path, lock: Lock, registry: Registry, tag: str) -> tuple[str, int]:
    """Bring weights to a registry; return the digest of their image and the bytes that went there.

    Raises Interrupted or WeightsError.
    """
    layers = layers_of(folder, lock)
    progress = Progress(sum(layer.size for layer in layers))
    digests, sent = [], 0
    try:
        for layer in layers:
            progress.file(layer.path)
            digests.append(layer.digest())
            if registry.has(digests[-1]):
                progress.add(layer.size)
                continue
            _upload(registry, layer, digests[-1], progress)
            sent += layer.size
    finally:
        progress.close()
    config = _as_json(
        {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": digests}}
    )
    config_digest = "sha256:" + hashlib.sha256(config).hexdigest()
    if not registry.has(config_digest):
        registry.put_blob(config_digest, len(config), iter([config]))
    manifest = _as_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": config_digest, "size": len(config)},
            "layers": [
                {"mediaType": _LAYER, "digest": digest, "size": layer.size, "annotations": {_TITLE: layer.path}}
                for layer, digest in zip(layers, digests, strict=True)
            ],
        }
    )
    digest = "sha256:" + hashlib.sha256(manifest).hexdigest()
    registry.put_manifest(tag or digest, manifest)
    return digest, sent


def _upload(registry: Registry, layer: Layer, digest: str, progress: Progress) -> None:
    for attempt in range(TRIES):
        gone = 0
        try:

            def counted() -> Iterator[bytes]:
                nonlocal gone
                for block in layer.blocks():
                    yield block
                    gone += len(block)
                    progress.add(len(block))

            registry.put_blob(digest, layer.size, counted())
            return
        except Interrupted as error:
            progress.add(-gone)
            if attempt == TRIES - 1:
                raise
            say(f"{error}: once more")


def _as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
