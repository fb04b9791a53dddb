"""Where weights can come from, by the beginning of `source`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ..problems import WRONG_USE, WeightsError


class Source(Protocol):
    """Weights at one place. `revision` is exact when they were listed: a commit, a digest, a version, or ""."""

    revision: str

    def listing(self) -> dict[str, int | None]:
        """Return the paths of all files, with their sizes where they are known. Raises Interrupted or WeightsError."""
        ...

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` on. Raises Interrupted where another try may help, or WeightsError."""
        ...


def open_source(source: str, revision: str, files: tuple[str, ...], root: Path) -> Source:
    """Return the source. files: as the owner names them; root: of the repository. Raises WeightsError."""
    scheme, _, rest = source.partition("://")
    if scheme == "hf" and rest:
        from .hub import Hub

        return Hub(rest, revision)
    if scheme in ("s3", "gs") and rest:
        from .bucket import Bucket

        return Bucket(source)
    if scheme == "oci" and rest:
        from .image import Image

        return Image(rest, revision)
    if scheme in ("https", "http") and rest:
        from .web import Web

        return Web(source, files)
    if source.startswith("pypi:"):
        from .package import Package

        return Package(source.removeprefix("pypi:"), revision)
    if re.match(r"\w+:", source):
        raise WeightsError(f"{source}: take hf://, oci://, s3://, gs://, https://, pypi: or a folder", WRONG_USE)
    from .folder import Disk

    return Disk((root / os.path.expanduser(source)).resolve(), source)
