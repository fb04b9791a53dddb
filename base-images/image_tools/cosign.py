"""Signatures and signed statements beside an image in its registry, by cosign 3 (https://docs.sigstore.dev).

Who has to have signed stands in base-images/keys: a public key, ROLE.pub, or the identity of a pipeline, ROLE.yml.
With a key nothing but the registry is asked. An identity is certified by Sigstore's public instance, or by a company's
own, which trusted-root.json and signing-config.json in the same folder name.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .catalog import FOLDER, ImageError
from .registry import is_loopback

KEYS = FOLDER / "keys"
SLSA, SPDX = "https://slsa.dev/provenance/v1", "https://spdx.dev/Document"
KINDS = {SLSA: "slsaprovenance1", SPDX: "spdxjson"}  # cosign's words for what a statement says
OFFLINE = KEYS / "offline"  # what tells cosign that a key needs no service
LIMIT_S = 300


@dataclass(frozen=True)
class Signer:
    """Who signs: the file that says who has to, and the private key or the file of an identity token ("": CI's own)."""

    public: Path
    private: str


def public_key(role: str) -> Path | None:
    """Return the file that says who has to have signed, None where there is none. Raises ImageError for two."""
    found = [path for path in (KEYS / f"{role}.pub", KEYS / f"{role}.yml") if path.is_file()]
    if len(found) > 1:
        raise ImageError(f"{found[0]} and {found[1].name}: a role signs with a key or without; remove one of them")
    return found[0] if found else None


def signer(role: str, private: str) -> Signer | None:
    """Return who signs, from `SIGN=file`; None where nothing has to be signed. Raises ImageError."""
    public = public_key(role)
    if public is None:
        if private:
            raise ImageError(
                f"SIGN={private}: {KEYS / role}.pub is missing: docs/security.md shows how to make a pair of keys"
            )
        return None
    if is_identity(public):
        identity_of(public)
        return Signer(public, private)
    if not private:
        raise ImageError(f"{public} exists, so images must be signed: pass SIGN=file of the private key")
    own = run(["public-key", f"--key={private}"], f"{private}: cannot read the signing key, with SIGN_PASSWORD")
    if own.split() != public.read_text().split():
        raise ImageError(f"{private}: does not match {public}; no tag was set")
    return Signer(public, private)


def sign(image: str, by: Signer) -> None:
    """Sign an image, name@digest. Raises ImageError."""
    run(["sign", *who_signs(by), *access(image), image], f"{image}: was not signed; no tag was set")


def attest(image: str, kind: str, told: Any, by: Signer) -> None:
    """Put a signed statement beside an image: SLSA's provenance or SPDX's list of packages. Raises ImageError."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(told, file)
        file.flush()
        statement = [f"--type={KINDS[kind]}", f"--predicate={file.name}"]
        run(["attest", *statement, *who_signs(by), *access(image), image], f"{image}: was not signed; no tag was set")


def check(image: str, public: Path) -> None:
    """Raise ImageError unless an image, name@digest, is signed by whom a file of base-images/keys names."""
    problem = f"{image}: is not signed by {public.name}; no tag was set"
    run(["verify", *who_signed(public), *access(image), image], problem)


def stated(image: str, kind: str, public: Path) -> list[Any]:
    """Return what a key or an identity stated of an image, the predicate of each statement. Raises ImageError."""
    problem = f"{image}: has no {KINDS[kind]} signed by {public.name}; no tag was set"
    printed = run(["verify-attestation", f"--type={KINDS[kind]}", *who_signed(public), *access(image), image], problem)
    payloads = [json.loads(line)["payload"] for line in printed.splitlines() if line.strip()]
    return [json.loads(base64.b64decode(payload))["predicate"] for payload in payloads]


def is_identity(public: Path) -> bool:
    """Tell whether a file of base-images/keys names an identity and not a key."""
    return public.suffix == ".yml"


def identity_of(public: Path) -> dict[str, str]:
    """Return identity and issuer that a file names. Raises ImageError."""
    try:
        told = yaml.safe_load(public.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ImageError(f"{public}: cannot read who signs: {str(error).splitlines()[0]}") from error
    if (
        not isinstance(told, dict)
        or set(told) != {"identity", "issuer"}
        or not all(isinstance(text, str) and text.strip() for text in told.values())
    ):
        raise ImageError(f"{public}: expected `identity` and `issuer`, each a text, and nothing else")
    return told


def who_signs(by: Signer) -> list[str]:
    """Return cosign's options for whoever signs."""
    option = "identity-token" if is_identity(by.public) else "key"
    return ["--yes", *([f"--{option}={by.private}"] if by.private else []), *services(by.public, "signing-config")]


def who_signed(public: Path) -> list[str]:
    """Return cosign's options for whoever has to have signed."""
    if not is_identity(public):
        return [f"--key={public}", "--insecure-ignore-tlog", *services(public)]
    told = identity_of(public)
    who = [f"--certificate-identity={told['identity']}", f"--certificate-oidc-issuer={told['issuer']}"]
    return [*who, *services(public)]


def services(public: Path, *more: str) -> list[str]:
    """Return cosign's options for the services that it asks: none with a key, a company's own where files name them."""
    folder = public.parent if is_identity(public) else OFFLINE
    paths = [folder / f"{name}.json" for name in (*more, "trusted-root")]
    return [f"--{path.stem}={path}" for path in paths if path.is_file()]


def access(image: str) -> list[str]:
    """Return the option that lets cosign speak plain HTTP to a registry on this machine, and only there."""
    return ["--allow-http-registry"] if is_loopback(image) else []


def run(arguments: list[str], problem: str) -> str:
    """Run cosign, which asks a busy registry again itself, and return what it prints. Raises ImageError."""
    os.environ.setdefault("COSIGN_PASSWORD", os.environ.get("SIGN_PASSWORD", ""))  # without one it would ask a person
    command = ["cosign", *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    except FileNotFoundError as error:
        raise ImageError(f"{problem}: cosign is not installed: put version 3 in PATH (docs/security.md)") from error
    except subprocess.TimeoutExpired as error:
        raise ImageError(f"{problem}: cosign did not end in {LIMIT_S} s") from error
    if done.returncode:
        errors = [line.removeprefix("Error: ") for line in done.stderr.splitlines() if line.startswith("Error: ")]
        raise ImageError(f"{problem}: {(errors or done.stderr.splitlines() or ['no reason was given'])[0][:300]}")
    return done.stdout
