"""Known vulnerabilities in the list of packages of an image."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_tools import sbom
from image_tools.catalog import ImageError


def test_a_vulnerability_fails_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trivy = tmp_path / "trivy"
    trivy.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{tmp_path}/asked"\nexit "$(cat "{tmp_path}/code")"\n')
    trivy.chmod(0o755)
    bill = tmp_path / "plain-cu13.spdx.json"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "code").write_text("0")
    sbom.scan_list(bill)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert (asked[0], asked[-1]) == ("sbom", str(bill))
    assert f"--ignorefile={sbom.ACCEPTED}" in asked
    for code, phrase in (("2", r"a vulnerability .* ended with 2"), ("1", r"no scan \(1\).* ended with 1")):
        (tmp_path / "code").write_text(code)
        with pytest.raises(ImageError, match=phrase):
            sbom.scan_list(bill)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ImageError, match="trivy is not installed"):
        sbom.scan_list(bill)
