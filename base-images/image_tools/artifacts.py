"""Small things beside an image in its registry: signature, provenance, list of packages, as images of the OCI.

Each names the image as its `subject`, so that a registry with the referrers API lists it there, and stands under a tag
made of the image's digest (sha256-....sig, .att, .sbom), by which cosign finds it, in any registry.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import registry
from .catalog import BUILD, ImageError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
STATEMENT = "https://in-toto.io/Statement/v1"


@dataclass(frozen=True)
class Part:
    """One layer of an artifact: its type, its bytes, and what is noted with it."""

    kind: str
    content: bytes
    notes: dict[str, str]


def digest_of(content: bytes) -> str:
    """Return the digest of some bytes, sha256:..."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def tag_of(digest: str, kind: str) -> str:
    """Return the tag under which what belongs to a digest stands; kind is sig, att or sbom."""
    return f"{digest.replace(':', '-')}.{kind}"


def described(kind: str, content: bytes) -> dict[str, Any]:
    """Return how a manifest names some bytes."""
    return {"mediaType": kind, "digest": digest_of(content), "size": len(content)}


def config_of(parts: list[Part]) -> bytes:
    """Return a configuration that engines can read: cosign's signatures have one too."""
    found = {"architecture": "", "os": "", "config": {}}
    return as_json(found | {"rootfs": {"type": "layers", "diff_ids": [digest_of(part.content) for part in parts]}})


def as_json(told: Any) -> bytes:
    """Return data as JSON, the same bytes for the same data."""
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def about(repository: str, digest: str, kind: str, told: Any) -> bytes:
    """Return a statement of in-toto about an image, as its bytes are signed; kind is the type of what is told."""
    subject = [{"name": repository, "digest": {"sha256": digest.removeprefix("sha256:")}}]
    return as_json({"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": told})


def manifest_of(
    parts: list[Part], subject: dict[str, Any], artifact_type: str, notes: dict[str, str] | None = None
) -> tuple[bytes, bytes]:
    """Return the manifest of an artifact, with what is noted of the whole, and its configuration."""
    config = config_of(parts)
    told: dict[str, Any] = {"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": artifact_type}
    told["config"] = described(CONFIG, config)
    own = [{"annotations": part.notes} if part.notes else {} for part in parts]
    told["layers"] = [described(part.kind, part.content) | note for part, note in zip(parts, own, strict=True)]
    return as_json(told | {"subject": subject} | ({"annotations": notes} if notes else {})), config


def subject_of(repository: str, digest: str) -> dict[str, Any]:
    """Return how an artifact names the image that it belongs to. Raises ImageError where the registry has another."""
    raw = registry.raw_manifest(f"{repository}@{digest}")
    if digest_of(raw) != digest:
        raise ImageError(f"{repository}@{digest}: the registry gave other bytes, {digest_of(raw)}")
    return described(json.loads(raw).get("mediaType", MANIFEST), raw)


def write_layout(folder: Path, manifest: bytes, blobs: list[bytes]) -> None:
    """Write an image layout of the OCI that skopeo pushes as it is."""
    place = folder / "blobs" / "sha256"
    place.mkdir(parents=True)
    for blob in [manifest, *blobs]:
        (place / hashlib.sha256(blob).hexdigest()).write_bytes(blob)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_bytes(as_json({"schemaVersion": 2, "manifests": [described(MANIFEST, manifest)]}))


def attach(
    repository: str,
    digest: str,
    kind: str,
    artifact_type: str,
    parts: list[Part],
    notes: dict[str, str] | None = None,
) -> str:
    """Push what belongs to a digest of a repository; return its reference. Raises ImageError."""
    manifest, config = manifest_of(parts, subject_of(repository, digest), artifact_type, notes)
    target = f"{repository}:{tag_of(digest, kind)}"
    with scratch() as folder:
        write_layout(Path(folder) / "layout", manifest, [config, *(part.content for part in parts)])
        registry.push_layout(Path(folder) / "layout", target)
    return target


def attached(repository: str, digest: str, kind: str) -> list[Part]:
    """Return the parts of what stands beside a digest; none where there is nothing. Raises ImageError."""
    reference = f"{repository}:{tag_of(digest, kind)}"
    if registry.find(reference) is None:
        return []
    with scratch() as folder:
        layout = Path(folder) / "layout"
        registry.pull_layout(reference, layout)
        [top] = json.loads((layout / "index.json").read_bytes())["manifests"]
        manifest = json.loads(blob(layout, top["digest"]))
        return [
            Part(layer["mediaType"], blob(layout, layer["digest"]), layer.get("annotations") or {})
            for layer in manifest["layers"]
        ]


def blob(layout: Path, digest: str) -> bytes:
    """Return a blob of a layout. Raises ImageError where its bytes are not those that its name says."""
    content = (layout / "blobs" / digest.replace(":", "/")).read_bytes()
    if digest_of(content) != digest:
        raise ImageError(f"{digest}: its bytes are others: {digest_of(content)}")
    return content


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for a moment, where builds have room."""
    BUILD.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=BUILD)
