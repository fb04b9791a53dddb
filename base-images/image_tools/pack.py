"""Give an image the same bytes from any engine: its layers' files in one order, compressed as a node pulls them.

An engine makes a layer's tar in one of several ways: Docker's classic store follows the folders, or sorts whole paths
and leaves folders out that did not change (where a layer of the same content was there already, or the kernel asks for
it), containerd's store has a way of its own. The files are equal, the digests are not: docs/decisions/0023.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import zstandard

from .artifacts import CONFIG, MANIFEST, as_json, described
from .catalog import BUILD, ImageError

LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
LEVEL = 9  # of zstd; what each level brings and costs: benchmarks/images/README.md
CHUNK = 1 << 20
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# What the configuration of an image has after the specification of the OCI; engines add their own.
KNOWN = ("created", "author", "architecture", "variant", "os", "config", "history")

Facts = tuple[Any, ...]


@dataclass
class Sink:
    """A file to write that counts and hashes what it hands on; without a file it only does that."""

    file: IO[bytes] | None = None
    size: int = 0
    sha: Any = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> int:
        """Take bytes."""
        self.size += len(data)
        self.sha.update(data)
        if self.file:
            self.file.write(data)
        return len(data)

    @property
    def digest(self) -> str:
        """The digest of what was written, sha256:..."""
        return f"sha256:{self.sha.hexdigest()}"


@dataclass(frozen=True)
class Image:
    """An image as `docker save` wrote it: its configuration, and the names of its layers, bottom first."""

    archive: tarfile.TarFile
    config: dict[str, Any]
    layers: list[str]


@contextmanager
def saved(archive: Path) -> Iterator[Image]:
    """Open what `docker save` wrote. Raises ImageError where it is not one image."""
    try:
        with tarfile.open(archive) as outer:
            [entry] = json.load(member(outer, "manifest.json"))
            yield Image(outer, json.load(member(outer, entry["Config"])), entry["Layers"])
    except (tarfile.TarError, ValueError, KeyError) as error:
        raise ImageError(f"{archive}: not one image as `docker save` writes it: {error}") from error


def member(outer: tarfile.TarFile, name: str) -> IO[bytes]:
    """Return a file of the archive, links followed. Raises KeyError."""
    found = outer.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def facts_of(entry: tarfile.TarInfo) -> Facts:
    """Return what a folder is, for the comparison with the one below."""
    times = int(float(entry.pax_headers.get("mtime", entry.mtime)))
    notes = tuple(sorted((key, value) for key, value in entry.pax_headers.items() if key.startswith("SCHILY.")))
    return (entry.type, entry.mode & 0o7777, entry.uid, entry.gid, times, notes)


def settle(layer: tarfile.TarFile, below: dict[str, Facts]) -> list[tuple[tarfile.TarInfo, tarfile.TarInfo | None]]:
    """Return the members of a layer in their one order, each with the member that holds its bytes.

    below: the folders of the layers under it, to which this layer's are added. A folder that is as it was below, and in
    which nothing changed, is left out. Of files that are one (hard links), the first in the order has the bytes.
    """
    entries = {name_of(entry.name): entry for entry in layer if name_of(entry.name) != "."}
    order = sorted(entries, key=lambda name: name.split("/"))
    changed = [name for name in order if is_new(name, entries[name], below)]
    kept = {above for name in changed for above in (name, *map(str, PurePosixPath(name).parents))}
    firsts: dict[str, str] = {}
    result: list[tuple[tarfile.TarInfo, tarfile.TarInfo | None]] = []
    for name in (name for name in order if name in kept):
        entry = entries[name]
        source = name_of(entry.linkname) if entry.islnk() else name
        holder = entries.get(source, entry)
        first = firsts.setdefault(source, name)
        result.append((plain(entry, name, holder, first), holder if holder.isreg() and first == name else None))
    return result


def name_of(path: str) -> str:
    """Return the one form of a path in a tar: ./opt/env/ is opt/env."""
    return str(PurePosixPath(path.lstrip("/")))


def is_new(name: str, entry: tarfile.TarInfo, below: dict[str, Facts]) -> bool:
    """Tell whether a member changes what the layers below have, and note it if it is a folder."""
    forget(name, below)
    if not entry.isdir():
        below.pop(name, None)
        return True
    old, below[name] = below.get(name), facts_of(entry)
    return old != below[name]


def forget(name: str, below: dict[str, Facts]) -> None:
    """Take the folders out that a mark of deletion takes out of an image."""
    folder, _, mark = name.rpartition("/")
    if not mark.startswith(".wh."):
        return
    gone = folder if mark == ".wh..wh..opq" else f"{folder}/{mark.removeprefix('.wh.')}".strip("/")
    for other in [other for other in below if other.startswith(f"{gone}/") or (other == gone and gone != folder)]:
        del below[other]


def plain(entry: tarfile.TarInfo, name: str, holder: tarfile.TarInfo, first: str) -> tarfile.TarInfo:
    """Return a member with nothing in it that depends on who wrote the tar."""
    made = tarfile.TarInfo(name + ("/" if entry.isdir() else ""))
    made.type, made.mode, made.uid, made.gid = holder.type, holder.mode & 0o7777, holder.uid, holder.gid
    made.mtime, made.size = int(float(holder.mtime)), holder.size if holder.isreg() else 0
    made.linkname, made.devmajor, made.devminor = holder.linkname, holder.devmajor, holder.devminor
    made.pax_headers = {key: value for key, value in sorted(holder.pax_headers.items()) if key.startswith("SCHILY.")}
    if holder.isreg() and first != name:
        made.type, made.size, made.linkname = tarfile.LNKTYPE, 0, first
    return made


@contextmanager
def unpacked(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield a layer's tar as a file to jump in; containerd's store saves it compressed, as it was pulled or built."""
    head = file.read(4)
    file.seek(0)
    if head[:2] != GZIP and head != ZSTD:
        yield file
        return
    reader = gzip.GzipFile(fileobj=file) if head[:2] == GZIP else zstandard.ZstdDecompressor().stream_reader(file)
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=BUILD) as plain:
        shutil.copyfileobj(cast(IO[bytes], reader), plain, CHUNK)
        plain.seek(0)
        yield plain


def write_layer(file: IO[bytes], below: dict[str, Facts], out: IO[bytes]) -> None:
    """Write a layer's tar in its one form."""
    with unpacked(file) as tar, tarfile.open(fileobj=tar, mode="r:") as layer:
        for made, holder in settle(layer, below):
            out.write(made.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
            if holder is None:
                continue
            content = cast(IO[bytes], layer.extractfile(holder))
            while data := content.read(CHUNK):
                out.write(data)
            out.write(b"\0" * (-holder.size % tarfile.BLOCKSIZE))
        out.write(b"\0" * 2 * tarfile.BLOCKSIZE)


def layers_of(archive: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the digests that an image's layers have in their one form, and its configuration. Raises ImageError."""
    below: dict[str, Facts] = {}
    found = []
    with saved(archive) as image:
        for name in image.layers:
            sink = Sink()
            write_layer(member(image.archive, name), below, cast(IO[bytes], sink))
            found.append(sink.digest)
        return found, image.config


def write_packed(archive: Path, layout: Path) -> None:
    """Write an image that `docker save` wrote as a layout of the OCI with one image. Raises ImageError."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    below: dict[str, Facts] = {}
    plain_digests, layers = [], []
    with saved(archive) as image:
        for name in image.layers:
            draft = blobs / "draft"
            whole = Sink()
            with draft.open("wb") as file:
                packed = Sink(file)
                # Of any number of threads but none, the result is the same.
                packer = zstandard.ZstdCompressor(level=LEVEL, threads=-1)
                with packer.stream_writer(cast(IO[bytes], packed), closefd=False) as stream:
                    whole.file = cast(IO[bytes], stream)
                    write_layer(member(image.archive, name), below, cast(IO[bytes], whole))
            draft.rename(blobs / packed.digest.removeprefix("sha256:"))
            plain_digests.append(whole.digest)
            layers.append({"mediaType": LAYER, "digest": packed.digest, "size": packed.size})
        told = {key: image.config[key] for key in KNOWN if key in image.config}
    config = as_json(told | {"rootfs": {"type": "layers", "diff_ids": plain_digests}})
    parts = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described(CONFIG, config), "layers": layers}
    manifest = as_json(parts)
    for content in (config, manifest):
        (blobs / hashlib.sha256(content).hexdigest()).write_bytes(content)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (layout / "index.json").write_bytes(as_json({"schemaVersion": 2, "manifests": [described(MANIFEST, manifest)]}))


def digest_in(layout: Path) -> str:
    """Return the digest of the one image of a layout."""
    [top] = json.loads((layout / "index.json").read_bytes())["manifests"]
    return str(top["digest"])
