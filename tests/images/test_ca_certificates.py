"""A root of trust that a build machine brought along is seen, and no image with it is released."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import docker
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from image_tools.build_plan import write_plan
from image_tools.ca_certificates import check_files, check_roots
from image_tools.catalog import FOLDER, ImageError, find_row
from recipe.install.ca_certificates import added_roots

from .conftest import CATALOG, Built


def certificate(name: str) -> x509.Certificate:
    """Return a new certificate of a name, signed by itself."""
    key, now = generate_private_key(SECP256R1()), datetime(2026, 1, 1, tzinfo=UTC)
    whose = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(whose).issuer_name(whose).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return made.sign(key, SHA256())


def write(path: Path, *certificates: x509.Certificate) -> None:
    """Write certificates to a file, as PEM."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(one.public_bytes(Encoding.PEM) for one in certificates))


def record(told: Any) -> dict[str, Any]:
    """Return the record of a smoke test whose report has these certificates."""
    return {"report": {"image": {"name": "plain-cu13", "certificates": told}}}


def test_a_root_that_is_not_debians_is_listed_with_its_subject(tmp_path: Path) -> None:
    """Wherever the loader of OpenSSL looks: in the bundle, and in a file of its own."""
    debians, bundled, alone = certificate("Debian's"), certificate("Build machine"), certificate("In a file")
    write(tmp_path / "debian" / "mozilla" / "one.crt", debians)
    write(tmp_path / "certs" / "ca-certificates.crt", debians, bundled)
    write(tmp_path / "certs" / "alone.pem", alone)
    found = added_roots(tmp_path / "certs", tmp_path / "debian")
    expected = {
        one.fingerprint(SHA256()).hex(): name for one, name in ((bundled, "Build machine"), (alone, "In a file"))
    }
    assert {one["sha256"]: one["subject"] for one in found} == {key: f"CN={name}" for key, name in expected.items()}
    assert [one["sha256"] for one in found] == sorted(expected)


def test_a_file_that_is_no_certificate_is_named_before_the_build(tmp_path: Path) -> None:
    """DER, another ending, two in one file, a private key, text: the image would lack it without a word."""
    company = certificate("Company")
    write(tmp_path / "company.crt", company)
    check_files(tmp_path)
    pem, der = (company.public_bytes(form) for form in (Encoding.PEM, Encoding.DER))
    key = b"-----BEGIN PRIVATE KEY-----\n"
    for name, content in (("a.crt", der), ("a.pem", pem), ("b.crt", pem + pem), ("c.crt", pem + key), ("d.crt", b"x")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ImageError, match=rf"{name}: expected a file NAME\.crt with one certificate in PEM form"):
            check_files(tmp_path)
        (tmp_path / name).unlink()


def test_no_tag_for_a_root_that_nobody_named(tmp_path: Path) -> None:
    company, machine = certificate("Company"), certificate("Build machine")
    listed = [{"sha256": one.fingerprint(SHA256()).hex(), "subject": "CN=x"} for one in (company, machine)]
    check_roots("image", record([]), tmp_path)
    with pytest.raises(ImageError, match=r"trusts CN=x \(sha256 [0-9a-f]{64}\), CN=x .* no tag was set"):
        check_roots("image", record(listed), tmp_path)
    write(tmp_path / "company.crt", company)
    check_roots("image", record(listed[:1]), tmp_path)
    with pytest.raises(ImageError, match=f"sha256 {listed[1]['sha256']}"):
        check_roots("image", record(listed), tmp_path)
    for told in (None, "none", 3, ["x"]):
        with pytest.raises(ImageError, match="does not list its roots of trust"):
            check_roots("image", record(told), tmp_path)


@pytest.mark.images
def test_a_root_that_nobody_named_ends_the_build_at_its_start(client: docker.DockerClient, tmp_path: Path) -> None:
    """Before anything large is fetched; UNKNOWN_ROOTS=allow builds an image that no promotion takes."""
    root = certificate("Build machine")
    write(tmp_path / "machine.crt", root)
    place = "/usr/local/share/ca-certificates/"
    (tmp_path / "Dockerfile").write_text(f"FROM {CATALOG['operating_system']}\nCOPY machine.crt {place}\n")
    system, _ = client.images.build(path=str(tmp_path), tag="unknown-root", rm=True)
    write_plan(CATALOG, find_row(CATALOG, "plain-cu13"), tmp_path / "plan")
    command = ["docker", "buildx", "build", "--progress=plain", f"--build-context=plan={tmp_path / 'plan'}"]
    command += ["--target=os", f"--build-arg=OS_IMAGE={system.tags[0]}", str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode, "the build went on"
    assert root.fingerprint(SHA256()).hex() in done.stderr, done.stderr[-2000:]
    assert "which is neither Debian's nor in base-images/ca" in done.stderr, done.stderr[-2000:]
    client.images.remove("unknown-root", force=True)


@pytest.mark.images
def test_an_image_lists_the_roots_that_its_system_brought(image: Built) -> None:
    """Those under /usr/local/share, where a company's and a build machine's lie, and no other."""
    count = "grep -rch 'BEGIN CERTIFICATE' /usr/local/share/ca-certificates | awk '{n += $1} END {print n + 0}'"
    told = json.loads(image.run("cat", "/opt/base/image.json"))["certificates"]
    assert len(told) == int(image.run("sh", "-c", count)), f"{image.name}: {told}"
    assert all(one["subject"] for one in told), f"{image.name}: {told}"
