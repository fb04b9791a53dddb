"""Measure the layers of local images: compressed size (zstd level 3) by content digest, and what an update re-pulls."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import IO, Any, cast

import docker
import zstandard

LEVEL = 3


@dataclass(frozen=True)
class Layer:
    """One layer: its content digest and its size in bytes, as it is and compressed with zstd."""

    digest: str
    raw: int
    compressed: int


class ChunkReader(io.RawIOBase):
    """A file to read over an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks, self.rest = chunks, b""

    def readable(self) -> bool:
        """Tell io that this can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the next chunk; return the number of bytes, 0 at the end."""
        if not self.rest:
            self.rest = next(self.chunks, b"")
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


class Counter:
    """A file to write that only counts bytes."""

    size = 0

    def write(self, data: bytes) -> int:
        """Count the bytes."""
        self.size += len(data)
        return len(data)


def measure(client: docker.DockerClient, tag: str) -> list[Layer]:
    """Return the layers of an image, bottom first. Raises docker.errors.ImageNotFound."""
    image = client.images.get(tag)
    wanted = [digest.removeprefix("sha256:") for digest in image.attrs["RootFS"]["Layers"]]
    found: dict[str, Layer] = {}
    stream = io.BufferedReader(ChunkReader(image.save(chunk_size=1 << 20)), 1 << 20)
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            digest = member.name.rsplit("/", 1)[-1]
            if digest in wanted:
                counter = Counter()
                packer = zstandard.ZstdCompressor(level=LEVEL, threads=2)
                packer.copy_stream(
                    cast(IO[bytes], archive.extractfile(member)), cast(IO[bytes], counter), size=member.size
                )
                found[digest] = Layer(digest, member.size, counter.size)
    return [found[digest] for digest in wanted]


def total(layers: list[Layer]) -> int:
    """Return the compressed bytes of all layers."""
    return sum(layer.compressed for layer in layers)


def pulled(old: list[Layer], new: list[Layer]) -> dict[str, int]:
    """Return the compressed bytes that a node which has `old` pulls for `new`.

    by_content: a node that keeps layers by digest (containerd). by_chain: one that keeps stacks of layers, and pulls
    everything from the first different layer upwards (Docker Engine's classic store).
    """
    known = {layer.digest for layer in old}
    same = 0
    while same < min(len(old), len(new)) and old[same].digest == new[same].digest:
        same += 1
    fresh = [layer for layer in new if layer.digest not in known]
    return {"by_content": total(fresh), "by_chain": total(new[same:])}


def as_json(layers: list[Layer]) -> list[dict[str, Any]]:
    """Return the layers for a result file."""
    return [asdict(layer) for layer in layers]
