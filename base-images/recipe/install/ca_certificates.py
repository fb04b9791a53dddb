"""Build step: the roots of trust that an image has beyond those of Debian's ca-certificates.

As a program: ca_certificates.py reject|allow   (what to do about one that base-images/ca does not contain)
"""

import hashlib
import re
import ssl
import subprocess
import sys
from pathlib import Path

TRUSTED = Path("/etc/ssl/certs")  # the bundle, and a file for each root
DEBIANS = Path("/usr/share/ca-certificates")
OURS = Path("/build/ca")  # base-images/ca
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


def main() -> None:
    """End the build where the operating system image, or the machine that builds, brought a root that nobody named."""
    ours = certificates(OURS)
    unknown = [root for root in added_roots() if root["sha256"] not in ours]
    for root in unknown:
        print(
            f"the image would trust {root['subject'] or 'a root'} (sha256 {root['sha256']}), which is neither Debian's "
            "nor in base-images/ca: put its *.crt there, set OS_IMAGE to an operating system image without it, or "
            "UNKNOWN_ROOTS=allow for an image that is not released",
            file=sys.stderr,
        )
    if unknown and sys.argv[1] != "allow":
        sys.exit(1)


if __name__ == "__main__":
    main()
