"""A build of an older lock of Debian's packages is not released over a newer one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from image_tools import forwards, registry
from image_tools.artifacts import Part
from image_tools.catalog import ImageError

REPOSITORY, DIGEST = "host/ml/plain-cu13", f"sha256:{'a' * 64}"
NIGHTLY = {"libssl3t64": "3.5.4-1~deb13u2", "bash": "5.2.37-2+b10"}


def listed(debian: dict[str, str], python: dict[str, str]) -> str:
    """Return a list of packages as far as it is read."""
    kinds = [("deb/debian", one) for one in debian.items()] + [("pypi", one) for one in python.items()]
    return json.dumps(
        {
            "packages": [
                {
                    "SPDXID": f"SPDXRef-{name}",
                    "name": name,
                    "versionInfo": version,
                    "externalRefs": [{"referenceType": "purl", "referenceLocator": f"pkg:{kind}/{name}@{version}"}],
                }
                for kind, (name, version) in kinds
            ]
        }
    )


def reason(
    monkeypatch: pytest.MonkeyPatch, folder: Path, released: str | None, debian: dict[str, str], python: dict[str, str]
) -> str:
    """Ask whether an image with these packages may follow what is released."""
    bill = folder / "bill.json"
    bill.write_text(listed(debian, python))
    monkeypatch.setattr(registry, "find", lambda _: registry.Manifest(DIGEST, (), ""))
    parts = [] if released is None else [Part("", released.encode(), {})]
    monkeypatch.setattr(forwards, "attached", lambda *_: parts)
    return forwards.reason_to_stay(REPOSITORY, "2026.11", "linux/amd64", bill)


@pytest.mark.parametrize(
    ("there", "here", "stays"),
    [
        ("3.5.4-1~deb13u2", "3.5.4-1~deb13u1", True),
        ("3.5.4-1~deb13u2", "3.5.4-1~deb13u2", False),
        ("3.5.4-1~deb13u2", "3.5.4-1~deb13u10", False),
        ("1:1.0-1", "9.0-1", True),
        ("5.6.1-1", "5.6.1+really5.4.5-1", False),
        ("3.5.4-1", "3.5.4-1~deb13u1", True),
    ],
)
def test_older_packages_of_debian_are_not_released_over_newer_ones(
    there: str, here: str, stays: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The order of versions is Debian's."""
    released = listed(NIGHTLY | {"libssl3t64": there}, {"numpy": "2.4.0"})
    found = reason(monkeypatch, tmp_path, released, NIGHTLY | {"libssl3t64": here}, {"numpy": "2.4.0"})
    assert bool(found) == stays, found
    if stays:
        assert f"libssl3t64 {there} -> {here}; not promoted" in found
        assert "make lock-os" in found


def test_a_release_of_other_packages_is_not_left_out_in_silence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    released = listed(NIGHTLY, {"numpy": "2.4.0"})
    older = {name: "1.0-1" for name in NIGHTLY}
    with pytest.raises(ImageError, match=r"bash .* -> 1\.0-1, libssl3t64 .*no tag was set: .*make lock-os"):
        reason(monkeypatch, tmp_path, released, older, {"numpy": "2.4.1"})
    assert not reason(monkeypatch, tmp_path, released, NIGHTLY, {"numpy": "2.4.1"}), "an update goes on"


def test_a_package_that_came_or_went_is_not_older(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    released = listed(NIGHTLY | {"gone": "9-1"}, {})
    assert not reason(monkeypatch, tmp_path, released, NIGHTLY | {"new": "0.1-1"}, {})


def test_a_release_without_a_list_is_followed_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not reason(monkeypatch, tmp_path, None, NIGHTLY, {})
    assert "cannot be told" in capsys.readouterr().out


def test_a_list_that_cannot_be_read_is_no_permission(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="cannot read this package list"):
        reason(monkeypatch, tmp_path, "{", NIGHTLY, {})
