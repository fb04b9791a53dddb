"""How an image was made, signed: a statement of in-toto with a predicate of SLSA, beside it under sha256-....att.

It is written when the image is pushed and not by BuildKit, whose own statement carries the time of the build in the
image's index: its digest would be another at every build.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

from . import keyless
from .artifacts import Part, about, as_json, attach, attached
from .catalog import ImageError, lock_path, sha256_of
from .keyless import Keyless
from .signing import is_keyless, is_signed, read_public, sign

if TYPE_CHECKING:
    from .push import Pushed

PAYLOAD = "application/vnd.in-toto+json"
SLSA, SPDX = "https://slsa.dev/provenance/v1", "https://spdx.dev/Document"
ENVELOPE = "application/vnd.dsse.envelope.v1+json"
BUILD_TYPE, BUILDER = "urn:gpu-repo-family:make-images:1", "urn:gpu-repo-family:make-push"
RUNS = ("BUILD_URL", "CI_JOB_URL", "GITHUB_RUN_ID")  # what Jenkins, GitLab and GitHub call a run


def predicate(catalog: dict[str, Any], row: dict[str, Any], pushed: Pushed) -> dict[str, Any]:
    """Return how a row's image was made: row, commit, locks, the operating system's image."""
    commit = pushed.commit.removesuffix("-dirty")
    system = os.environ.get("OS_IMAGE") or str(catalog["operating_system"])
    name, _, pinned = system.partition("@sha256:")
    lock = lock_path(row["name"])
    sources: list[dict[str, Any]] = [
        {"uri": "git+repository", "digest": {"gitCommit": commit}},
        {"uri": f"base-images/{row['name']}/{lock.name}", "digest": {"sha256": sha256_of(lock)}},
        {"uri": f"docker://{name}"} | ({"digest": {"sha256": pinned}} if pinned else {}),
    ]
    run = next((os.environ[name] for name in RUNS if os.environ.get(name)), "")
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "row": row["name"],
                "release": str(catalog["release"]),
                "commit": pushed.commit,
            },
            "resolvedDependencies": sources,
        },
        "runDetails": {
            "builder": {"id": BUILDER},
            "metadata": {"finishedOn": pushed.pushed} | ({"invocationId": run} if run else {}),
        },
    }


def encoded(kind: str, payload: bytes) -> bytes:
    """Return what is signed of an envelope (DSSE's pre-authentication encoding)."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def enveloped(repository: str, digest: str, kind: str, told: Any, key: EllipticCurvePrivateKey) -> Part:
    """Return a statement about an image in a signed envelope."""
    payload = about(repository, digest, kind, told)
    envelope = {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": "", "sig": sign(key, encoded(PAYLOAD, payload))}],
    }
    return Part(ENVELOPE, as_json(envelope), {"dev.cosignproject.cosign/signature": "", "predicateType": kind})


def opened(part: Part, key: EllipticCurvePublicKey) -> dict[str, Any] | None:
    """Return the statement of an envelope that a key signed, None for any other."""
    try:
        envelope = json.loads(part.content)
        payload = base64.b64decode(envelope["payload"], validate=True)
        signed = encoded(str(envelope["payloadType"]), payload)
        if not any(is_signed(key, signed, str(one["sig"])) for one in envelope["signatures"]):
            return None
        told = json.loads(payload)
    except (ValueError, KeyError, TypeError):
        return None
    return told if isinstance(told, dict) else None


def attest(repository: str, digest: str, told: dict[str, Any], key: EllipticCurvePrivateKey | Keyless) -> None:
    """Put signed statements beside an image, by the type of each: SLSA's provenance, SPDX's list of packages."""
    if isinstance(key, Keyless):
        keyless.sign(repository, digest, told, key)
        return
    parts = [enveloped(repository, digest, kind, one, key) for kind, one in sorted(told.items())]
    attach(repository, digest, "att", PAYLOAD, parts)


def attested(repository: str, digest: str, public: Path) -> dict[str, Any]:
    """Return what a key or an identity says of an image, by the type of statement. Raises ImageError."""
    if is_keyless(public):
        return keyless.stated(repository, digest, public, (SLSA, SPDX))
    key, wanted = read_public(public), {"sha256": digest.removeprefix("sha256:")}
    told = [opened(part, key) for part in attached(repository, digest, "att")]
    return {
        one["predicateType"]: one["predicate"]
        for one in told
        if one and any(about.get("digest") == wanted for about in one.get("subject") or ())
    }


def check_provenance(row: dict[str, Any], pushed: Pushed, public: Path) -> dict[str, Any]:
    """Return how an image was made; raise ImageError unless a key says that it is this row's, of this commit."""
    repository = pushed.image.rpartition("@")[0]
    told = attested(repository, pushed.digest, public).get(SLSA)
    if told is None:
        raise ImageError(f"{pushed.image}: has no provenance signed by {public.name}; no tag was set")
    parameters = told["buildDefinition"]["externalParameters"]
    for what, wanted in (("row", row["name"]), ("commit", pushed.commit)):
        if wanted and parameters.get(what) != wanted:
            raise ImageError(
                f"{pushed.image}: was built from {what} {parameters.get(what)}, not {wanted}; no tag was set"
            )
    found: dict[str, Any] = told
    return found
