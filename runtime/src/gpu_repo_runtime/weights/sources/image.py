"""Files of an image in a registry: one of `scripts/weights push`, or any other whose layers are tar or tar+gzip."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..problems import AWAY, Interrupted, WeightsError
from ..registry import Registry, split
from .web import BLOCK

TOP = "models/"
_AHEAD = 1 << 16
_GONE, _ALL_GONE = ".wh.", ".wh..wh..opq"


@dataclass(frozen=True)
class _Place:
    """Where the bytes of a file are in a layer; `spooled` is a layer that had to be unpacked first."""

    digest: str
    offset: int
    size: int
    spooled: Path | None


class Image:
    """The files below /models of an image, or all where there is no such folder. `revision` becomes its digest."""

    def __init__(self, reference: str, revision: str) -> None:
        host, repository, tag = split(reference)
        self._registry = Registry(host, repository)
        self.revision = revision or tag or "latest"
        self._places: dict[str, _Place] = {}
        self._spool: tempfile.TemporaryDirectory[str] | None = None

    def listing(self) -> dict[str, int | None]:
        """Return the files with their sizes; of a layer that is not packed, only the heads of its files are read."""
        content, manifest = self._registry.manifest(self.revision)
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        if self.revision.startswith("sha256:") and digest != self.revision:
            raise WeightsError(f"{self._registry.name}: the registry gave {digest} for {self.revision}")
        self.revision = digest
        if manifest.get("manifests"):
            _, manifest = self._registry.manifest(_image_of(manifest["manifests"]))
        found: dict[str, _Place] = {}
        for layer in manifest.get("layers", []):
            found = _laid_over(found, self._files(layer))
        below = {path.removeprefix(TOP): place for path, place in found.items() if path.startswith(TOP)}
        self._places = below or found
        if not self._places:
            raise WeightsError(f"{self._registry.name}@{digest} holds no files")
        return {path: place.size for path, place in self._places.items()}

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` on."""
        if not self._places:
            self.listing()
        if path not in self._places:
            raise WeightsError(f"{self._registry.name}@{self.revision} holds no {path}", AWAY)
        place = self._places[path]
        if start >= place.size:  # an empty file, or one of which all is here: no range asks for nothing
            return
        if place.spooled is None:
            yield from self._registry.stream(place.digest, place.offset + start, place.size - start)
            return
        with place.spooled.open("rb") as file:
            file.seek(place.offset + start)
            left = place.size - start
            while left and (block := file.read(min(BLOCK, left))):
                left -= len(block)
                yield block

    def _files(self, layer: dict[str, Any]) -> dict[str, _Place]:
        digest, kind = layer["digest"], str(layer.get("mediaType", ""))
        spooled: Path | None = None
        file: Any
        if kind.endswith(".tar"):
            file = _Remote(self._registry, digest, int(layer["size"]))
        elif kind.endswith((".tar+gzip", ".tar.gzip")):
            spooled = self._unpacked(digest, int(layer["size"]))
            file = spooled.open("rb")
        else:
            raise WeightsError(f"{self._registry.name}: a layer is {kind}: only tar and tar+gzip are read")
        try:
            with file, tarfile.open(fileobj=file, mode="r:") as archive:
                found: dict[str, _Place] = {}
                for one in archive:
                    name = one.name.removeprefix("./")
                    if one.isreg() and not one.issparse():
                        found[name] = _Place(digest, one.offset_data, one.size, spooled)
                    elif one.islnk() and (target := one.linkname.removeprefix("./")) in found:
                        found[name] = found[target]
                    elif not one.isdir() and name.startswith(TOP):
                        raise WeightsError(
                            f"{self._registry.name}: /{name} is a link or a device: only files are taken as weights"
                        )
                return found
        except tarfile.TarError as error:
            raise WeightsError(f"{self._registry.name}: the layer {digest} is not a whole tar: {error}") from None

    def _unpacked(self, digest: str, size: int) -> Path:
        self._spool = self._spool or tempfile.TemporaryDirectory()
        packed, plain = Path(self._spool.name, "packed"), Path(self._spool.name, digest.removeprefix("sha256:"))
        found = hashlib.sha256()
        with packed.open("wb") as file:
            for block in self._registry.stream(digest, 0, size):
                found.update(block)
                file.write(block)
        if f"sha256:{found.hexdigest()}" != digest:
            raise WeightsError(f"{self._registry.name}: the registry gave other bytes for {digest}")
        with gzip.open(packed) as source, plain.open("wb") as target:
            shutil.copyfileobj(source, target, BLOCK)
        packed.unlink()
        return plain


def _image_of(manifests: list[dict[str, Any]]) -> str:
    """Return the digest of the image in an index, which may list what was signed about it too."""
    images = [one for one in manifests if one.get("platform", {}).get("os") != "unknown"]
    return str((images or manifests)[0]["digest"])


def _laid_over(below: dict[str, _Place], layer: dict[str, _Place]) -> dict[str, _Place]:
    """Return the files of the layers below and of one above them; `.wh.NAME` takes NAME away, `.wh..wh..opq` all."""
    gone = set()
    for path in layer:
        folder, _, name = path.rpartition("/")
        if name.startswith(_GONE):
            hidden = "" if name == _ALL_GONE else name.removeprefix(_GONE)
            gone.add(f"{folder}/{hidden}".strip("/"))
    kept = {path: place for path, place in below.items() if not any(f"{path}/".startswith(f"{one}/") for one in gone)}
    return kept | {path: place for path, place in layer.items() if not path.rpartition("/")[2].startswith(_GONE)}


class _Remote(io.RawIOBase):
    """A layer in the registry as a file, read a piece at a time: enough for the heads of a tar."""

    def __init__(self, registry: Registry, digest: str, size: int) -> None:
        self._registry, self._digest, self._size = registry, digest, size
        self._at, self._piece, self._begin = 0, b"", 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes. Raises Interrupted or WeightsError."""
        left = max(0, self._size - self._at)
        size = left if size < 0 else min(size, left)
        if not size:
            return b""
        if not self._begin <= self._at <= self._at + size <= self._begin + len(self._piece):
            end = min(self._size, self._at + max(size, _AHEAD))
            try:
                with self._registry.blob(self._digest, self._at, end) as answer:
                    self._piece, self._begin = answer.read(), self._at
            except OSError as error:
                raise Interrupted(f"{self._registry.name} broke off: {error}") from None
            if len(self._piece) < size:
                raise Interrupted(f"{self._registry.name} broke off")
        start = self._at - self._begin
        self._at += size
        return self._piece[start : start + size]
