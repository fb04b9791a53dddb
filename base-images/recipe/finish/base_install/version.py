"""Versions as PEP 440 compares them: 2.5, 2.5.0 and v2.5.0.0 are one."""

from packaging.version import InvalidVersion, Version


def normal(version: str) -> str:
    """Return a version in its normal form, so that 2026.01.2 and 2026.1.2 are one."""
    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def same_version(one: str, other: str) -> bool:
    """Tell whether two versions are equal; what is no version equals its own text alone."""
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other
