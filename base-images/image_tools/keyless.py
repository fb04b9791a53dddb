"""Signatures by the identity of a pipeline instead of a key: Sigstore's bundles, as cosign 3 puts them beside an image.

Who has to have signed stands in base-images/keys/ROLE.yml: `identity`, as the certificate names it, and `issuer`, who
vouches for it. base-images/keys/trust.json names the certificate authority and the log (Sigstore's "client trust
config"); without it those of the public instance count. Checking asks the registry alone.
"""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from .artifacts import Part, about, attach, attached
from .catalog import ImageError

if TYPE_CHECKING:
    from sigstore.models import Bundle, ClientTrustConfig
    from sigstore.oidc import IdentityToken

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
IN_TOTO = "application/vnd.in-toto+json"
SIGNED = "https://sigstore.dev/cosign/sign/v1"  # what cosign 3 states of an image that it signs
# The end of the tag under which each kind of statement stands; a registry with the referrers API lists them too.
TAGS = {SIGNED: "sign", "https://slsa.dev/provenance/v1": "slsa", "https://spdx.dev/Document": "spdx"}


@dataclass(frozen=True)
class Keyless:
    """Who signs without a key: the file that names the identity, and that of a token ("": the pipeline's own)."""

    who: Path
    token: str


def read_who(path: Path) -> tuple[str, str]:
    """Return identity and issuer that a file names. Raises ImageError."""
    try:
        told = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ImageError(f"{path}: cannot read who signs: {str(error).splitlines()[0]}") from error
    keys = ("identity", "issuer")
    right = isinstance(told, dict) and set(told) == set(keys)
    if not right or not all(isinstance(told[key], str) and told[key].strip() for key in keys):
        raise ImageError(f"{path}: expected `identity` and `issuer`, each a text, and nothing else")
    return told["identity"], told["issuer"]


def trust(who: Path) -> ClientTrustConfig:
    """Return whose certificates and whose log count. Raises ImageError."""
    from sigstore.models import ClientTrustConfig

    logging.getLogger("sigstore").setLevel(logging.ERROR)  # it warns that it asks no network, which is meant
    path = who.with_name("trust.json")
    try:
        if path.is_file():
            return ClientTrustConfig.from_json(path.read_text())
        return ClientTrustConfig.production(offline=True)
    except Exception as error:  # of the package's own, of its models and of its files
        raise ImageError(f"{path}: no root of trust for signatures without a key: {first_line(error)}") from error


def identity_token(signer: Keyless) -> IdentityToken:
    """Return the pipeline's token, which is good for minutes: taken anew for each signature. Raises ImageError."""
    from sigstore.oidc import IdentityToken, detect_credential

    try:
        raw = Path(signer.token).read_text().strip() if signer.token else detect_credential()
        if raw:
            return IdentityToken(raw)
        reason = "nothing here gives one out"
    except Exception as error:  # the package's own, the file's, or that of whoever gives out tokens
        reason = first_line(error)
    raise ImageError(
        f"{signer.who}: asks for the identity of a pipeline, and there is no token of it ({reason}); no tag was set: "
        "GitHub gives one with `id-token: write`, GitLab as SIGSTORE_ID_TOKEN, Jenkins as a file (SIGN=file)"
    )


def sign(repository: str, digest: str, told: dict[str, Any], signer: Keyless) -> None:
    """Put signed statements beside an image, by the type of each. Raises ImageError, with nothing put there."""
    from sigstore.dsse import Statement
    from sigstore.sign import SigningContext

    token, config = identity_token(signer), trust(signer.who)
    made = {}
    try:
        with SigningContext.from_trust_config(config).signer(token) as one:
            for kind, predicate in sorted(told.items()):
                made[kind] = one.sign_dsse(Statement(about(repository, digest, kind, predicate)))
    except Exception as error:  # of the authority, of the log, of the way there
        raise ImageError(f"{repository}@{digest}: was not signed: {first_line(error)}; no tag was set") from error
    for bundle in made.values():
        if reason := refusal(bundle, signer.who):
            raise ImageError(f"{repository}@{digest}: was signed as somebody else than {signer.who} asks: {reason}")
    for kind, bundle in made.items():
        notes = {"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": kind}
        attach(repository, digest, tag_of(kind), BUNDLE, [Part(BUNDLE, bundle.to_json().encode(), notes)], notes)


def tag_of(kind: str) -> str:
    """Return the end of the tag of a kind of statement."""
    return f"{TAGS[kind]}.sigstore"


def refusal(bundle: Bundle, who: Path) -> str:
    """Return in one line why a bundle does not count, "" where it does."""
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    identity, issuer = read_who(who)
    try:
        verifier = Verifier(trusted_root=trust(who).trusted_root)
        kind, _ = verifier.verify_dsse(bundle, Identity(identity=identity, issuer=issuer))
    except ImageError:
        raise
    except Exception as error:  # whoever wrote the bundle chooses what fails in it
        return first_line(error)
    return "" if kind == IN_TOTO else f"it is a {kind}"


def stated(repository: str, digest: str, who: Path, kinds: tuple[str, ...] = tuple(TAGS)) -> dict[str, Any]:
    """Return what was stated of an image, by kind, under this repository's name and by who has to. Raises ImageError.

    A statement of somebody else, or about another image, is none; where all are such, the reason is told.
    """
    from sigstore.models import Bundle

    found: dict[str, Any] = {}
    reasons = []
    for kind in kinds:
        for part in attached(repository, digest, tag_of(kind)):
            try:
                bundle = Bundle.from_json(part.content)
                told = json.loads(base64.b64decode(json.loads(part.content)["dsseEnvelope"]["payload"]))
                right = (
                    told["predicateType"] == kind
                    and {"name": repository, "digest": {"sha256": digest[7:]}} in (told["subject"])
                )
            except Exception as error:  # whoever wrote the bundle chooses what fails in it
                reasons.append(first_line(error))
                continue
            if reason := refusal(bundle, who):
                reasons.append(reason)
            elif not right:
                reasons.append(f"it is about another image, {str(told.get('subject'))[:200]}")
            else:
                found[kind] = told["predicate"]
    if not found and reasons:
        raise ImageError(f"{repository}@{digest}: is not signed by the identity in {who.name}: {reasons[0]}")
    return found


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line; its kind where it says nothing."""
    text = " ".join(str(error).split())
    return text[:300] or type(error).__name__
