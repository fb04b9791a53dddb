"""Releases go forwards only: an image with older packages of Debian than what was promoted last is not promoted.

It happens after a nightly release, which takes what Debian has now: a push to main builds what base-images/os.lock
pins, until somebody renews the lock.
"""

from __future__ import annotations

from pathlib import Path

from . import registry
from .artifacts import attached, scratch
from .catalog import ImageError
from .sbom import packages_of
from .system import RENEW, debian_packages
from .weaknesses.versions import debian


def older_packages(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return a line for each package of Debian that has a lower version now than before."""
    both = [(name, debian(before[name]), debian(now[name])) for name in sorted(before.keys() & now.keys())]
    return [f"{name} {before[name]} -> {now[name]}" for name, old, new in both if old and new and new < old]


def others(bill: Path) -> dict[str, str]:
    """Return the packages of a list that are not Debian's, with their versions. Raises ImageError."""
    system = debian_packages(bill)
    return {name: version for name, version in packages_of(bill).items() if name not in system}


def reason_to_stay(repository: str, moving: str, platform: str, bill: Path) -> str:
    """Return why what was promoted last stays: nothing but Debian's packages differs, and some are older; else "".

    bill: the list of packages of what is to be promoted for a platform. Raises ImageError where other packages differ
    too, so that a release that somebody waits for would be left out in silence.
    """
    last = registry.find(f"{repository}:{moving}")
    digest = "" if last is None else last.images.get(platform, "") if last.images else last.digest
    parts = attached(repository, digest, "sbom") if digest else []
    if not parts:
        if digest:
            print(f"{repository}:{moving}: has no list of packages beside it; whether it is newer cannot be told")
        return ""
    with scratch() as folder:
        there = Path(folder) / "released.json"
        there.write_bytes(parts[0].content)
        older = older_packages(debian_packages(there), debian_packages(bill))
        same = others(there) == others(bill)
    if not older:
        return ""
    rest = f" and {len(older) - 3} more" if len(older) > 3 else ""
    told = f"would bring back older packages of Debian: {', '.join(older[:3])}{rest}"
    if not same:
        raise ImageError(f"{repository}:{moving}: {told}; no tag was set: base-images/os.lock is old, {RENEW}")
    return f"{repository}:{moving}: {told}; not promoted. A change of the recipe waits too: {RENEW}"
