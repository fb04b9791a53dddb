"""The list of packages of an image: valid by SPDX's own checker, named by the image's digest."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from image_tools import sbom, scan
from image_tools.artifacts import digest_of
from image_tools.catalog import ImageError

DIGEST = f"sha256:{'a' * 64}"
SITE = "opt/env/lib/python3.13/site-packages"
FILES = {
    "etc/os-release": 'NAME="Debian GNU/Linux"\nVERSION_ID="13"\nVERSION_CODENAME=trixie\nID=debian\n',
    "var/lib/dpkg/status": "Package: libssl3t64\nStatus: install ok installed\nArchitecture: amd64\n"
    "Maintainer: D <d@example.com>\nSource: openssl (3.5.1-1)\nVersion: 3.5.1-1+b1\nDescription: TLS\n\n",
    "var/lib/dpkg/info/libssl3t64:amd64.list": "/.\n/usr\n/usr/lib\n/usr/lib/libssl.so.3\n",
    "var/lib/dpkg/info/libssl3t64:amd64.md5sums": f"{'0' * 32}  usr/lib/libssl.so.3\n",
    "usr/lib/libssl.so.3": "a library",
    f"{SITE}/nvidia_cublas-13.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: nvidia-cublas\nVersion: 13.0\n"
    "License: NVIDIA Proprietary Software\n",
    f"{SITE}/nvidia_cublas-13.0.dist-info/RECORD": "nvidia/cu13/lib/libcublas.so.13,,\nnvidia/__init__.py,,\n",
    f"{SITE}/h5py-3.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: h5py\nVersion: 3.1\n",
    "opt/base/lib/packaging-26.3-py3-none-any.whl": "",
    f"{SITE}/h5py-3.1.dist-info/RECORD": "h5py.libs/libaec-1a2b3c4d.so.0.0.12,,\nh5py/_conv.so,,\n",
}


def packed(files: dict[str, bytes]) -> bytes:
    """Return files as a tar archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def saved(_: str, archive: Path) -> None:
    """Write an image as `docker save` does."""
    layer = packed({name: text.encode() for name, text in FILES.items()})
    config = {"architecture": "amd64", "os": "linux", "config": {}}
    text = json.dumps(config | {"rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]}}).encode()
    manifest = [{"Config": "config.json", "RepoTags": ["x:1"], "Layers": ["layer.tar"]}]
    files = {"config.json": text, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    archive.write_bytes(packed(files))


def test_a_list_is_valid_and_names_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By syft from an image as `docker save` writes it, checked by spdx-tools."""
    monkeypatch.setattr(sbom, "BUILD", tmp_path)
    monkeypatch.setattr(sbom, "save", saved)
    reference = f"localhost:5000/ml/plain-cu13@{DIGEST}"
    bill = sbom.write_sbom("plain-cu13", reference, tmp_path)
    assert sbom.spdx_problems(bill) == []
    told = json.loads(bill.read_text())
    assert (told["name"], told["documentNamespace"].rpartition("/")[2]) == (reference, DIGEST.replace(":", "-"))
    [image] = [one for one in told["packages"] if one["SPDXID"].startswith("SPDXRef-DocumentRoot")]
    assert image["checksums"] == [{"algorithm": "SHA256", "checksumValue": "a" * 64}]
    assert (image["name"], image["versionInfo"]) == ("plain-cu13", DIGEST)
    packages = {"libssl3t64": "3.5.1-1+b1", "nvidia-cublas": "13.0", "h5py": "3.1", "packaging": "26.3"}
    assert packages.items() <= sbom.packages_of(bill).items()
    assert sorted(path.name for path in (tmp_path / "sbom").iterdir()) == ["plain-cu13.spdx.json"]
    licences = {one["licenseId"] for one in told["hasExtractedLicensingInfos"]}
    assert any("NVIDIA" in one for one in licences), "a licence that SPDX does not know is named without its text"

    listed = {one["name"]: one for one in told["packages"]}
    inside = {
        (one["spdxElementId"], one["relatedSpdxElement"])
        for one in told["relationships"]
        if one["relationshipType"] == "CONTAINS"
    }
    for owner, library, version in (
        ("nvidia-cublas", "libcublas.so.13", "13.0"),
        ("h5py", "libaec-1a2b3c4d.so.0.0.12", "0.0.12"),
    ):
        assert listed[library]["versionInfo"] == version, library
        assert (listed[owner]["SPDXID"], listed[library]["SPDXID"]) in inside, library
    assert "_conv.so" not in listed, "a package's own module is not another's library"

    monkeypatch.setattr(sbom, "named", lambda document, _: document | {"documentNamespace": "no address"})
    with pytest.raises(ImageError, match="the package list is not valid SPDX"):
        sbom.write_sbom("plain-cu12", reference, tmp_path)
    assert not (tmp_path / "sbom" / "plain-cu12.spdx.json").exists()


def test_a_licence_without_a_text_gets_its_name_as_text() -> None:
    """The checker refuses a reference to a licence that the document does not hold."""
    root = {"SPDXID": "SPDXRef-DocumentRoot-x", "name": "x", "versionInfo": DIGEST}
    other = {"SPDXID": "SPDXRef-a", "name": "a", "licenseDeclared": "LicenseRef-NV AND MIT AND LicenseRef-Known"}
    known = [{"licenseId": "LicenseRef-Known", "extractedText": "words"}]
    made = sbom.named({"packages": [root, other], "hasExtractedLicensingInfos": known}, "registry.example.com/ml/a:1")
    assert made["hasExtractedLicensingInfos"] == [*known, {"licenseId": "LicenseRef-NV", "extractedText": "NV"}]
    assert made["name"] == f"registry.example.com/ml/a@{DIGEST}", "without a digest of a registry it is the archive's"


def test_a_vulnerability_fails_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for Trivy: it gets the list and the accepted vulnerabilities, and its exit code decides."""
    trivy = tmp_path / "trivy"
    trivy.write_text(f'#!/bin/sh\necho "$*" >"{tmp_path}/asked"\nexit "$(cat "{tmp_path}/code")"\n')
    trivy.chmod(0o755)
    bill = tmp_path / "plain-cu13.spdx.json"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "code").write_text("0")
    scan.scan_list(bill)
    asked = (tmp_path / "asked").read_text().split()
    assert (asked[0], asked[-1]) == ("sbom", str(bill))
    assert f"--ignorefile={scan.ACCEPTED}" in asked
    assert scan.ACCEPTED.is_file()
    (tmp_path / "code").write_text("1")
    with pytest.raises(ImageError, match=r"plain-cu13\.spdx\.json: not accepted"):
        scan.scan_list(bill)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ImageError, match="trivy is not installed"):
        scan.scan_list(bill)
