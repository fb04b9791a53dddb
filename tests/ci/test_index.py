"""An image that Docker pushed as an index is released by the digest of the index."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime.promote import promote

from tests.ci import farm
from tests.ci.registry import digest_of

OCI = "application/vnd.oci.image"
COMMIT, WHEN = "c" * 40, "2026-01-01T00:00:00Z"
LABELS = {"org.opencontainers.image.revision": COMMIT, "org.opencontainers.image.created": WHEN}


def put_index(registry: farm.Registry, name: str, tag: str, content: bytes) -> str:
    """Give an index of one image a tag, as a push would; return its digest."""

    def blob(kind: str, data: bytes) -> dict[str, Any]:
        registry.blobs[name, digest_of(data)] = data
        return {"mediaType": f"{OCI}.{kind}", "digest": digest_of(data), "size": len(data)}

    def manifest(kind: str, **parts: object) -> dict[str, Any]:
        data = json.dumps({"schemaVersion": 2, "mediaType": f"{OCI}.{kind}", **parts}).encode()
        registry.manifests[name, digest_of(data)] = f"{OCI}.{kind}", data
        return {"mediaType": f"{OCI}.{kind}", "digest": digest_of(data), "size": len(data)}

    layer = blob("layer.v1.tar+gzip", gzip.compress(content, mtime=0))
    rootfs = {"type": "layers", "diff_ids": [digest_of(content)]}
    platform = {"os": "linux", "architecture": "amd64"}
    config = json.dumps({**platform, "config": {"Labels": LABELS}, "rootfs": rootfs}).encode()
    image = manifest("manifest.v1+json", config=blob("config.v1+json", config), layers=[layer])
    digest = str(manifest("index.v1+json", manifests=[image | {"platform": platform}])["digest"])
    registry.manifests[name, tag] = registry.manifests[name, digest]
    return digest


@pytest.mark.slow
def test_an_index_is_released_by_its_own_digest_wherever_its_tag_is_now(
    registry: farm.Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever may push to staging moves the tag of a checked build: what was checked is released."""
    smoked = put_index(registry, "ml-staging/index", "ci-1", b"smoked")
    moved = put_index(registry, "ml-staging/index", "ci-1", b"another")
    assert registry.tags("ml-staging/index") == {"ci-1": moved}
    login = base64.b64encode(":".join(farm.RELEASE_LOGIN).encode()).decode()
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {registry.host: {"auth": login}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    name = f"{registry.host}/ml/index:v1.0.0"
    assert promote(f"{registry.host}/ml-staging/index@{smoked}", name, COMMIT, WHEN) == smoked
    assert registry.tags("ml/index") == {"v1.0.0": smoked}
