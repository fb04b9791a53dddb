"""Signatures of images in cosign's format, with a key (ECDSA P-256, SHA-256): `cosign verify --key` reads them.

Nothing but the registry is asked, so they are checked offline. A signature is over a text that names the repository and
the digest, and stands beside the image under the tag sha256-....sig. A role whose file in base-images/keys names an
identity instead of a key signs without one (keyless.py).
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from . import keyless
from .artifacts import Part, as_json, attach, attached
from .catalog import FOLDER, ImageError
from .keyless import Keyless

KEYS = FOLDER / "keys"
ROLES = ("staging", "release")  # who pushes an image, and who releases it
SIMPLE = "application/vnd.dev.cosign.simplesigning.v1+json"
NOTE = "dev.cosignproject.cosign/signature"
ARTIFACT = "application/vnd.dev.cosign.artifact.sig.v1+json"
KIND = "cosign container image signature"


def public_key(role: str) -> Path | None:
    """Return the file that says who has to have signed, None where there is none. Raises ImageError for two.

    It is a key, base-images/keys/ROLE.pub, or an identity, ROLE.yml.
    """
    found = [path for path in (KEYS / f"{role}.pub", KEYS / f"{role}.yml") if path.is_file()]
    if len(found) > 1:
        raise ImageError(f"{found[0]} and {found[1].name}: a role signs with a key or without; remove one of them")
    return found[0] if found else None


def is_keyless(public: Path) -> bool:
    """Tell whether a file of base-images/keys names an identity and not a key."""
    return public.suffix == ".yml"


def read_private(path: Path) -> EllipticCurvePrivateKey:
    """Return the key to sign with, of a PEM file; SIGN_PASSWORD opens an encrypted one. Raises ImageError."""
    password = os.environ.get("SIGN_PASSWORD", "").encode() or None
    try:
        key = load_pem_private_key(path.read_bytes(), password)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ImageError(
            f"{path}: cannot read the signing key: {str(error).splitlines()[0]}; create one with `make signing-key "
            "ROLE=release TO=file` (an encrypted one needs SIGN_PASSWORD)"
        ) from error
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise ImageError(f"{path}: expected a key on the curve P-256, as cosign makes them")
    return key


def make_key(role: str, private: Path) -> Path:
    """Write a new pair of keys, the private one to a file of the caller's; return the public one. Raises ImageError."""
    public = KEYS / f"{role}.pub"
    if role not in ROLES:
        raise ImageError(f"ROLE={role}: expected {' or '.join(ROLES)}")
    for path in (private, public, public.with_suffix(".yml")):
        if path.exists():
            raise ImageError(f"{path}: already exists: move it away first")
    key = generate_private_key(SECP256R1())
    password = os.environ.get("SIGN_PASSWORD", "").encode()
    closed = BestAvailableEncryption(password) if password else NoEncryption()
    try:
        private.touch(mode=0o600)
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, closed))
        public.parent.mkdir(exist_ok=True)
        public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    except OSError as error:
        raise ImageError(f"{error.filename}: the key was not written: {error.strerror}") from error
    return public


def signer(role: str, private: str) -> EllipticCurvePrivateKey | Keyless | None:
    """Return the key of `SIGN=...`, or who signs without; None where nothing has to be signed. Raises ImageError."""
    public = public_key(role)
    if public and is_keyless(public):
        keyless.read_who(public)
        one = Keyless(public, private)
        keyless.identity_token(one)  # a missing one is told before minutes of work
        return one
    if not private:
        if public:
            raise ImageError(f"{public} exists, so images must be signed: pass SIGN=file of the private key")
        return None
    key = read_private(Path(private))
    if public and read_public(public) != key.public_key():
        raise ImageError(f"{private}: does not match {public}; no tag was set")
    return key


def read_public(path: Path) -> EllipticCurvePublicKey:
    """Return the key to check with, of a PEM file. Raises ImageError."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ImageError(f"{path}: no public key in PEM: {str(error).splitlines()[0]}") from error
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise ImageError(f"{path}: expected a public key on the curve P-256, as cosign makes them")
    return key


def sign(key: EllipticCurvePrivateKey, content: bytes) -> str:
    """Return the signature over some bytes, in base64."""
    return base64.b64encode(key.sign(content, ECDSA(SHA256()))).decode()


def is_signed(key: EllipticCurvePublicKey, content: bytes, signature: str) -> bool:
    """Tell whether a signature, in base64, is this key's over these bytes."""
    try:
        key.verify(base64.b64decode(signature, validate=True), content, ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def statement(repository: str, digest: str) -> dict[str, Any]:
    """Return what is signed of an image."""
    identity, image = {"docker-reference": repository}, {"docker-manifest-digest": digest}
    return {"critical": {"identity": identity, "image": image, "type": KIND}, "optional": None}


def sign_image(repository: str, digest: str, key: EllipticCurvePrivateKey | Keyless) -> None:
    """Put a signature beside an image; those of other keys stay. Raises ImageError."""
    if isinstance(key, Keyless):
        keyless.sign(repository, digest, {keyless.SIGNED: {}}, key)
        return
    content = as_json(statement(repository, digest))
    there = attached(repository, digest, "sig")
    if any(
        part.content == content and is_signed(key.public_key(), content, part.notes.get(NOTE, "")) for part in there
    ):
        return
    made = Part(SIMPLE, content, {NOTE: sign(key, content)})
    attach(repository, digest, "sig", ARTIFACT, [*there, made])


def check_image(repository: str, digest: str, public: Path) -> None:
    """Raise ImageError unless an image is signed by a key, under this repository's name and with this digest.

    public: of base-images/keys; an identity instead of a key is checked in the same way.
    """
    if is_keyless(public):
        if keyless.SIGNED not in keyless.stated(repository, digest, public, (keyless.SIGNED,)):
            raise ImageError(f"{repository}@{digest}: is not signed by {public.name}: no signature; no tag was set")
        return
    key, wanted = read_public(public), statement(repository, digest)["critical"]
    there = attached(repository, digest, "sig")
    signed = [part for part in there if part.kind == SIMPLE and is_signed(key, part.content, part.notes.get(NOTE, ""))]
    if not signed:
        what = f"{len(there)} signatures, none from this key" if there else "no signature"
        raise ImageError(f"{repository}@{digest}: is not signed by {public.name}: {what}; no tag was set")
    told = [critical_of(part.content) for part in signed]
    if wanted not in told:
        raise ImageError(
            f"{repository}@{digest}: the signature by {public.name} is about another image, "
            f"{as_json(told[0]).decode()[:300]}; no tag was set"
        )


def critical_of(content: bytes) -> Any:
    """Return what a signed text says of its image, None where it says nothing that can be read."""
    try:
        return json.loads(content)["critical"]
    except (ValueError, KeyError, TypeError):
        return None
