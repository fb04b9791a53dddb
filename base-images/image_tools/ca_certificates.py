"""Which roots of trust an image may have beyond Debian's: those in base-images/ca, which are reviewed as a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recipe.install.ca_certificates import certificates

from .catalog import FOLDER, ImageError

NAMED = FOLDER / "ca"


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
