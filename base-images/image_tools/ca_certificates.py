"""Which roots of trust an image may have beyond Debian's: those in base-images/ca, which are reviewed as a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.x509 import load_pem_x509_certificates
from recipe.install.ca_certificates import certificates

from .catalog import FOLDER, ImageError

NAMED = FOLDER / "ca"


def check_files(named: Path = NAMED) -> None:
    """Raise ImageError for a file that is not a *.crt with one certificate: images would be built without it."""
    for path in sorted(one for one in named.rglob("*") if one.is_file() and one.name != "README.md"):
        text = path.read_bytes()
        try:
            found = load_pem_x509_certificates(text)
        except ValueError:
            found = []
        if path.suffix != ".crt" or len(found) != 1 or b"PRIVATE KEY" in text:
            raise ImageError(
                f"{path}: expected a file NAME.crt with one certificate in PEM form and no private key; from DER: "
                f"openssl x509 -inform DER -in {path.name} -out {path.stem}.crt"
            )


def check_roots(image: str, record: Any, named: Path = NAMED) -> None:
    """Raise ImageError unless an image's smoke test reports only roots of trust that are Debian's or in base-images/ca.

    An image lists the others itself (image.json), and the report of its smoke test repeats the list.
    """
    told = (record["report"].get("image") or {}).get("certificates")
    allowed = certificates(named)
    if not isinstance(told, list) or not all(isinstance(root, dict) for root in told):
        raise ImageError(f"{image}: does not list its roots of trust; no tag was set; build it again (make images)")
    if unknown := [root for root in told if root.get("sha256") not in allowed]:
        listed = ", ".join(f"{root.get('subject') or 'a root'} (sha256 {root.get('sha256')})" for root in unknown)
        raise ImageError(
            f"{image}: trusts {listed}, which Debian does not ship and base-images/ca does not hold; no tag was set"
        )
