"""What the release record keeps of a promotion."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import registry
from .catalog import DEFAULT_PLATFORM, lock_path, sha256_of
from .plan import LABEL_PREFIX


def with_platforms(
    told: dict[str, Any], platform: str, others: dict[str, dict[str, Any]], tag: str, digest: str
) -> dict[str, Any]:
    """Return the entry of a release: with other platforms, what the first one's says, the list's digest, and each."""
    if not others:
        return told
    platforms = {name: {key: value for key, value in one.items() if key != "platforms"} for name, one in others.items()}
    platforms[platform] = told
    first = platforms.get(DEFAULT_PLATFORM, told)
    return first | {"tag": tag, "digest": digest, "platforms": dict(sorted(platforms.items()))}


def lock_of(image: str, row: dict[str, Any]) -> str:
    """Return the checksum of the lock that the image was built from: after a rollback not the row's of today."""
    labels = registry.config(image).get("config", {}).get("Labels") or {}
    return str(labels.get(f"{LABEL_PREFIX}.lock-sha256") or sha256_of(lock_path(row["name"])))


def entry(
    row: dict[str, Any],
    image: str,
    tag: str,
    pushed: registry.Manifest,
    smoke: dict[str, Any],
    bill: Path,
    record: Path,
) -> dict[str, Any]:
    """Return the entry of the release record."""
    return {
        "tag": tag,
        "digest": pushed.digest,
        "lock_sha256": lock_of(image, row),
        "compressed_bytes": pushed.size,
        "layers": list(pushed.layers),
        "smoke": smoke,
        "sbom": str(bill.relative_to(record.parent)),
        "promoted": f"{datetime.now(UTC):%Y-%m-%d}",
    }
