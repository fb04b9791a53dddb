"""Which roots of trust an image may have beyond Debian's: those in base-images/ca, which are reviewed as a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificates

from .catalog import FOLDER, ImageError

NAMED = FOLDER / "ca"


def named_roots(folder: Path) -> set[str]:
    """Return the SHA-256 of each certificate in a folder of *.crt files (PEM). Raises ImageError."""
    found = set()
    for path in sorted(folder.rglob("*.crt")):
        try:
            found |= {one.fingerprint(SHA256()).hex() for one in load_pem_x509_certificates(path.read_bytes())}
        except (OSError, ValueError) as error:
            raise ImageError(f"{path}: cannot read the certificate: {str(error).splitlines()[0]}") from error
    return found


def unknown_roots(listed: list[Any]) -> list[Any]:
    """Return the roots of an image's list (image.json, `certificates`) that base-images/ca does not contain."""
    allowed = named_roots(NAMED)
    return [root for root in listed if not isinstance(root, dict) or root.get("sha256") not in allowed]


def check_roots(image: str, record: Any) -> None:
    """Raise ImageError unless an image's smoke test reports only roots of trust that are Debian's or in base-images/ca.

    An image lists the others itself (image.json), and the report of its smoke test repeats the list.
    """
    told = (record["report"].get("image") or {}).get("certificates")
    if not isinstance(told, list):
        raise ImageError(
            f"{image}: does not list its roots of trust; no tag was set: build it again with `make images`"
        )
    if unknown := unknown_roots(told):
        first = unknown[0] if isinstance(unknown[0], dict) else {}
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise ImageError(
            f"{image}: trusts {first.get('subject') or 'a root'} (sha256 {first.get('sha256')}){more}, which Debian "
            "does not ship and base-images/ca does not hold; no tag was set: put its *.crt there, or build on an "
            "operating system image without it"
        )
