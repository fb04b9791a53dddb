"""Build step: the roots of trust that an image has beyond those of Debian's ca-certificates."""

import hashlib
import re
import ssl
import subprocess
from pathlib import Path

TRUSTED = Path("/etc/ssl/certs")  # the bundle, and a file for each root
DEBIANS = Path("/usr/share/ca-certificates")
PEM = re.compile(r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.+?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL)


def certificates(folder: Path) -> dict[str, bytes]:
    """Return the certificates in the files of a folder, by their SHA-256 (of DER)."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    texts = [text for path in files for text in PEM.findall(path.read_text(errors="replace"))]
    found = [ssl.PEM_cert_to_DER_cert(text.replace("TRUSTED ", "")) for text in texts]
    return {hashlib.sha256(one).hexdigest(): one for one in found}


def subject(certificate: bytes) -> str:
    """Return whom a certificate is of, "" where it cannot be read."""
    command = ["openssl", "x509", "-inform", "DER", "-noout", "-subject", "-nameopt", "RFC2253"]
    done = subprocess.run(command, input=certificate, capture_output=True, check=False)
    return done.stdout.decode(errors="replace").strip().removeprefix("subject=")


def added_roots(trusted: Path = TRUSTED, debians: Path = DEBIANS) -> list[dict[str, str]]:
    """Return each root that is trusted and not Debian's, as {"sha256": ..., "subject": ...}."""
    known = certificates(debians)
    added = {digest: one for digest, one in certificates(trusted).items() if digest not in known}
    return [{"sha256": digest, "subject": subject(one)} for digest, one in sorted(added.items())]
