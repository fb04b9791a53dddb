"""One digest for several platforms: a list of images (an index of the OCI), from which each node takes its own.

Each platform's image is smoked and promoted on a machine of its own. The list of a release holds those that were made
from the same lock, the first platform always: a child's packages are resolved against one lock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import registry
from .artifacts import as_json, described, digest_of, scratch, subject_of, write_layout
from .catalog import DEFAULT_PLATFORM, ImageError
from .platforms import architecture
from .signing import check_image, public_key

INDEX = "application/vnd.oci.image.index.v1+json"


def entries_of(known: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what a release record says of each platform; of a record without platforms, of the first one."""
    found: dict[str, dict[str, Any]] = known.get("platforms") or ({DEFAULT_PLATFORM: known} if known else {})
    return found


def companions(known: dict[str, Any], row: dict[str, Any], lock: str) -> dict[str, dict[str, Any]]:
    """Return what is released on the row's other platforms and was made from the same lock. Raises ImageError.

    lock: SHA-256 of the lock of the image that is promoted now.
    """
    others = {name: one for name, one in entries_of(known).items() if name != row["platform"]}
    same = {name: one for name, one in others.items() if name in row["platforms"] and one["lock_sha256"] == lock}
    if row["platform"] != DEFAULT_PLATFORM and DEFAULT_PLATFORM not in same:
        raise ImageError(
            f"{row['name']}: nothing is released for {DEFAULT_PLATFORM} from the lock of this image; no tag was set: "
            f"promote that platform first (make promote IMAGE={row['name']})"
        )
    for name in others.keys() - same.keys():
        print(
            f"{row['name']}: the release has no image for {name} until one of this lock is promoted (PLATFORM={name})"
        )
    return same


def list_of(repository: str, images: dict[str, str]) -> bytes:
    """Return the list of images that a repository holds: {platform: digest}; the same bytes for the same images.

    With a key in base-images/keys each has to be signed. Raises ImageError.
    """
    public = public_key("release")
    told = []
    for platform, digest in sorted(images.items()):
        if public:
            check_image(repository, digest, public)
        system, _, _ = platform.partition("/")
        place = {"platform": {"architecture": architecture(platform), "os": system}}
        told.append(subject_of(repository, digest) | place)
    return as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": told})


def push_list(content: bytes, reference: str) -> None:
    """Push a list whose images the repository holds already. Raises ImageError."""
    with scratch() as folder:
        layout = Path(folder) / "layout"
        write_layout(layout, content, [])
        top = {"schemaVersion": 2, "manifests": [described(INDEX, content)]}
        (layout / "index.json").write_bytes(as_json(top))
        registry.push_layout(layout, reference, only_list=True)
    if (found := registry.look_up(reference).digest) != digest_of(content):
        raise ImageError(f"{reference}: the registry says {found}, expected the list {digest_of(content)}")
