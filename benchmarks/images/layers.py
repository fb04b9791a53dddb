"""Measure the layers of local images: compressed size (zstd level 3) by content digest."""

from __future__ import annotations

import subprocess
import tarfile
from dataclasses import dataclass
from typing import IO, cast

import docker
import zstandard

LEVEL = 3


@dataclass(frozen=True)
class Layer:
    """One layer: its content digest and its size in bytes, compressed with zstd."""

    digest: str
    compressed: int


def measure(client: docker.DockerClient, tag: str) -> list[Layer]:
    """Return the layers of an image, bottom first. Raises docker.errors.ImageNotFound."""
    wanted = [digest.removeprefix("sha256:") for digest in client.images.get(tag).attrs["RootFS"]["Layers"]]
    found: dict[str, Layer] = {}
    with (
        subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE) as saved,
        tarfile.open(fileobj=saved.stdout, mode="r|") as archive,
    ):
        for member in archive:
            digest = member.name.rsplit("/", 1)[-1]
            if digest in wanted:
                packer = zstandard.ZstdCompressor(level=LEVEL, threads=2)
                packed = packer.read_to_iter(cast(IO[bytes], archive.extractfile(member)), size=member.size)
                found[digest] = Layer(digest, sum(map(len, packed)))
    return [found[digest] for digest in wanted]


def total(layers: list[Layer]) -> int:
    """Return the compressed bytes of all layers."""
    return sum(layer.compressed for layer in layers)
