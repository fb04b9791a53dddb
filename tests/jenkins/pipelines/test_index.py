"""An image that Docker pushed as an index, with what it attests beside it, is released by the digest of the index."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from gpu_repo_runtime.promote import promote

from tests.jenkins.pipelines import farm

OCI = "application/vnd.oci.image"
COMMIT, WHEN = "c" * 40, "2026-01-01T00:00:00Z"


def layout(folder: Path) -> str:
    """Write an OCI layout of an index of one image and one attestation; return the digest of the index."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(kind: str, content: object) -> dict[str, Any]:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    with io.BytesIO() as file:
        tarfile.open(fileobj=file, mode="w").close()
        content = file.getvalue()
    layer = blob("layer.v1.tar+gzip", gzip.compress(content, mtime=0))
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]}
    manifests = []
    for system in ("linux", "unknown"):
        platform = {"os": system, "architecture": "amd64" if system == "linux" else "unknown"}
        labels = {
            f"org.opencontainers.image.{name}": value for name, value in (("revision", COMMIT), ("created", WHEN))
        }
        config = blob("config.v1+json", {**platform, "config": {"Labels": labels}, "rootfs": rootfs})
        made = {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": config, "layers": [layer]}
        manifests.append(blob("manifest.v1+json", made) | {"platform": platform})
    kind = f"{OCI}.index.v1+json"
    index = blob("index.v1+json", {"schemaVersion": 2, "mediaType": kind, "manifests": manifests})
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(index["digest"])


def test_an_index_is_released_by_its_own_digest(registry: farm.Registry, tmp_path: Path) -> None:
    digest = layout(tmp_path / "oci")
    staging = f"127.0.0.1:{registry.port}/ml-staging/index"
    command = ["skopeo", "copy", "--quiet", "--all", "--dest-tls-verify=false"]
    subprocess.run([*command, f"oci:{tmp_path}/oci", f"docker://{staging}:ci-1"], check=True)
    name = f"127.0.0.1:{registry.port}/ml/index:v1.0.0"
    assert promote(f"{staging}@{digest}", name, COMMIT, WHEN) == digest
    assert registry.tags("ml/index") == {"v1.0.0": digest}
