"""The image's own description, /opt/base/image.json: what this image promises."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from .policy import FRAMEWORKS

DEFAULT_PATH = "/opt/base/image.json"
# What a framework loads; none draws random numbers with cuRAND. A row may name its own list as "libraries".
OF_A_FRAMEWORK = ["cublas", "cusolver", "cusparse", "cufft"]
PROMISED = dict.fromkeys(FRAMEWORKS, OF_A_FRAMEWORK) | {"plain": ["cublas", "curand", "cusolver", "cusparse", "cufft"]}


class Row(NamedTuple):
    """The promises of the image; every field may be empty. ``problem`` says why a file that exists is of no use."""

    path: str
    found: bool
    data: dict[str, Any]
    problem: str = ""

    def text(self, key: str) -> str:
        """Return a key as text, "" when absent or of another type."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    @property
    def cuda(self) -> tuple[int, int] | None:
        """CUDA version of the image as (major, minor)."""
        return version_pair(self.text("cuda"))

    @property
    def driver_min(self) -> int | None:
        """Oldest kernel driver branch, such as 580."""
        value = self.data.get("driver_min")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def full_driver(self) -> str:
        """The driver branch that also compiles this CUDA's PTX, as the end of a fix line; "" when the row has none."""
        value = self.data.get("driver_full")
        return f" to branch {value} or newer" if isinstance(value, int) and not isinstance(value, bool) else ""

    def oldest_driver(self, cuda: int) -> int | None:
        """Return the oldest driver branch that runs a CUDA (13020 for 13.2), by the catalogue's table; None without."""
        known = {version_pair(version): entry for version, entry in self._cuda_drivers().items()}
        same_major = [entry.get("min") for pair, entry in known.items() if pair and pair[0] == cuda // 1000]
        return next((branch for branch in same_major if isinstance(branch, int)), None)

    def older_image(self, driver: str) -> str:
        """Return how to get the image for an older driver, such as ``535.183.01``, as a part of a fix line."""
        have, _ = version_pair(driver) or (0, 0)
        older = {entry["min"]: version for version, entry in self._cuda_drivers().items() if "min" in entry}
        branch = max((low for low in older if low <= have and low < (self.driver_min or 0)), default=0)
        if not branch:
            return "use an image of an older CUDA"
        image = f"{self.text('framework')}-cu{older[branch].partition('.')[0]}"
        return f"use the image {image} for driver {branch} and newer: `scripts/update --answer gpu_driver={branch}`"

    def _cuda_drivers(self) -> dict[str, dict[str, Any]]:
        table = self.data.get("cuda_drivers")
        entries = table.items() if isinstance(table, dict) else ()
        return {version: entry for version, entry in entries if isinstance(entry, dict)}

    def capabilities(self, kind: str) -> list[str]:
        """Return promised compute capabilities of ``kind`` (``sass`` or ``ptx``), such as ``9.0``."""
        block = self.data.get("compute_capabilities")
        values = block.get(kind) if isinstance(block, dict) else None
        return [v for v in values if isinstance(v, str)] if isinstance(values, list) else []

    @property
    def libraries(self) -> list[str]:
        """Families of toolkit libraries that the image promises; empty without a row."""
        if not self.cuda:
            return []
        named = self.data.get("libraries")
        if isinstance(named, list):
            return [v for v in named if isinstance(v, str)]
        extra = [family for family in ("cudnn", "nccl") if self.text(family)]
        return PROMISED.get(self.text("framework"), []) + extra


def to_driver(row: Row, cuda: int) -> str:
    """Return which driver a CUDA (13020 for 13.2) needs, as the end of a fix line."""
    branch = row.oldest_driver(cuda)
    return f" to branch {branch} or newer" if branch else f" to one of CUDA {cuda // 1000}.0 or newer"


def version_pair(text: str) -> tuple[int, int] | None:
    """Return (major, minor) of a version such as ``13.2`` or ``13.2.1``, or None."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})", text)
    return (int(match.group(1)), int(match.group(2))) if match else None


def read_row(path: str) -> Row:
    """Read the image's description; a missing file is an empty row, an unusable one has its ``problem``."""
    try:
        if not Path(path).exists():
            return Row(path, False, {})
        if not Path(path).is_file():
            return Row(path, True, {}, "not a file")
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return Row(path, True, {}, f"{type(error).__name__}: {error}")
    if not isinstance(data, dict):
        return Row(path, True, {}, "not a JSON object")
    return Row(path, True, data)
