"""Signatures by the identity of a pipeline, in a real registry, from a made-up authority; checked without either."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from image_tools import keyless, promote, provenance, registry, signing
from image_tools.artifacts import Part, as_json, attach, attached
from image_tools.catalog import ImageError

from .authority import Authority, answering, token
from .registries import running
from .test_signing import CATALOG, COMMIT, ROW, image

ISSUER = "https://issuer.example.com"
WHO = {role: f"https://ci.example.com/images/{role}" for role in signing.ROLES}
Sealing = Callable[..., None]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry on this machine."""
    with running(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that names an identity for each role, where promotion looks for it, and tokens of them beside it."""
    monkeypatch.setattr(signing, "KEYS", tmp_path / "keys")
    monkeypatch.delenv("SIGSTORE_ID_TOKEN", raising=False)
    (tmp_path / "keys").mkdir()
    for role, identity in WHO.items():
        (tmp_path / "keys" / f"{role}.yml").write_text(f"identity: {identity}\nissuer: {ISSUER}\n")
        (tmp_path / f"{role}.token").write_text(token(identity, ISSUER) + "\n")
    return tmp_path


@pytest.fixture
def seal(keys: Path) -> Sealing:
    """How a push signs; the authority answers for that moment alone, so that what checks afterwards is offline."""
    authority = Authority()

    def sign(pushed: Any, role: str = "staging", by: str = "", other: Authority | None = None) -> None:
        with answering(other or authority) as address:
            (keys / "keys" / "trust.json").write_text((other or authority).trust(address))
            signer = signing.signer(role, str(keys / f"{by or role}.token"))
            assert isinstance(signer, keyless.Keyless)
            repository = pushed.image.rpartition("@")[0]
            told = {provenance.SLSA: provenance.predicate(CATALOG, ROW, pushed)}
            provenance.attest(repository, pushed.digest, told, signer)
            signing.sign_image(repository, pushed.digest, signer)
        (keys / "keys" / "trust.json").write_text(authority.trust(address))

    return sign


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_promotion_asks_for_the_identity_that_the_repository_names(host: str, keys: Path, seal: Sealing) -> None:
    staging, releases = f"{host}/ml-staging/plain-cu13", f"{host}/ml/plain-cu13"
    pushed = image(staging, "candidate")
    (keys / "keys" / "trust.json").write_text(Authority().trust("http://127.0.0.1:9"))
    with pytest.raises(ImageError, match=r"is not signed by staging.yml: no signature; no tag was set"):
        promote.check_signed(pushed, ROW, releases, older=False)
    seal(pushed)
    assert promote.check_signed(pushed, ROW, releases, older=False)
    (keys / "keys" / "staging.yml").write_text(f"identity: {WHO['release']}\nissuer: {ISSUER}\n")
    with pytest.raises(ImageError, match=r"is not signed by the identity in staging.yml"):
        promote.check_signed(pushed, ROW, releases, older=False)
    (keys / "keys" / "staging.yml").write_text(f"identity: {WHO['staging']}\nissuer: https://elsewhere.example.com\n")
    with pytest.raises(ImageError, match=r"is not signed by the identity in staging.yml"):
        promote.check_signed(pushed, ROW, releases, older=False)


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_a_release_is_signed_and_verified_without_a_key(
    host: str, keys: Path, seal: Sealing, capsys: pytest.CaptureFixture[str]
) -> None:
    releases = f"{host}/ml/plain-cu13"
    pushed, bill = image(releases, "released"), keys / "plain-cu13.spdx.json"
    bill.write_text('{"spdxVersion": "SPDX-2.3"}\n')
    arguments = argparse.Namespace(image="plain-cu13", registry=f"{host}/ml", digest=pushed.digest)
    authority = Authority()
    with answering(authority) as address:
        (keys / "keys" / "trust.json").write_text(authority.trust(address))
        promote.seal(CATALOG, ROW, pushed, releases, bill, None, signing.signer("release", str(keys / "release.token")))
    promote.verify(CATALOG, arguments)
    assert f"signed by release.yml, built from commit {COMMIT}" in capsys.readouterr().out
    told = provenance.attested(releases, pushed.digest, keys / "keys" / "release.yml")
    assert told[provenance.SPDX] == {"spdxVersion": "SPDX-2.3"}


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_it_stands_in_the_registry_as_cosign_3_puts_it(host: str, keys: Path, seal: Sealing) -> None:
    """One manifest for each bundle, of its type and about the image: what the referrers API lists."""
    repository = f"{host}/ml-staging/plain-cu13"
    pushed = image(repository, "format")
    seal(pushed)
    for end, kind in (("sign", keyless.SIGNED), ("slsa", provenance.SLSA)):
        told = json.loads(registry.raw_manifest(f"{repository}:sha256-{pushed.digest[7:]}.{end}.sigstore"))
        assert told["artifactType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
        assert told["annotations"]["dev.sigstore.bundle.predicateType"] == kind
        assert told["subject"]["digest"] == pushed.digest
        [part] = attached(repository, pushed.digest, f"{end}.sigstore")
        assert part.kind == told["artifactType"] == json.loads(part.content)["mediaType"]


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_what_another_signed_or_what_is_about_another_image_counts_for_nothing(
    host: str, keys: Path, seal: Sealing
) -> None:
    repository, who = f"{host}/ml-staging/plain-cu13", keys / "keys" / "staging.yml"
    pushed, other = image(repository, "one"), image(repository, "other")
    seal(pushed)
    bundle = attached(repository, pushed.digest, "sign.sigstore")
    attach(repository, other.digest, "sign.sigstore", keyless.BUNDLE, bundle)
    with pytest.raises(ImageError, match="it is about another image"):
        signing.check_image(repository, other.digest, who)
    elsewhere = f"{host}/evil/plain-cu13"
    assert image(elsewhere, "one").digest == pushed.digest
    attach(elsewhere, pushed.digest, "sign.sigstore", keyless.BUNDLE, bundle)
    with pytest.raises(ImageError, match="it is about another image"):
        signing.check_image(elsewhere, pushed.digest, who)
    slsa = attached(repository, pushed.digest, "slsa.sigstore")
    attach(repository, pushed.digest, "sign.sigstore", keyless.BUNDLE, slsa)
    with pytest.raises(ImageError, match="it is about another image"):
        signing.check_image(repository, pushed.digest, who)
    third = image(repository, "third")
    seal(third, other=Authority())
    with pytest.raises(ImageError, match=r"is not signed by the identity in staging.yml"):
        signing.check_image(repository, third.digest, who)


def forged(part: Part, how: str) -> bytes:
    """Return a bundle with one thing in it changed."""
    told = json.loads(part.content)
    [entry] = told["verificationMaterial"]["tlogEntries"]
    if how == "its text":
        payload = told["dsseEnvelope"]["payload"]
        told["dsseEnvelope"]["payload"] = payload[:40] + ("A" if payload[40] != "A" else "B") + payload[41:]
    elif how == "the log's promise":
        entry["inclusionPromise"]["signedEntryTimestamp"] = told["dsseEnvelope"]["signatures"][0]["sig"]
    elif how == "its place in the log":
        entry["inclusionProof"]["rootHash"] = "A" * 43 + "="
    elif how == "its time":
        entry["integratedTime"] = str(int(entry["integratedTime"]) + 3600)
    elif how == "no log":
        told["verificationMaterial"]["tlogEntries"] = []
    elif how == "no text":
        del told["dsseEnvelope"]
    return b"[" if how == "no bundle" else as_json(told)


FORGED = ["its text", "the log's promise", "its place in the log", "its time", "no log", "no text", "no bundle"]


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_a_forged_bundle_is_refused_in_one_line(host: str, keys: Path, seal: Sealing) -> None:
    repository, who = f"{host}/ml-staging/plain-cu13", keys / "keys" / "staging.yml"
    pushed = image(repository, "forged")
    seal(pushed)
    [part] = attached(repository, pushed.digest, "sign.sigstore")
    for how in FORGED:
        false = Part(part.kind, forged(part, how), part.notes)
        attach(repository, pushed.digest, "sign.sigstore", keyless.BUNDLE, [false])
        with pytest.raises(ImageError, match=r"is not signed by the identity in staging.yml: .") as error:
            signing.check_image(repository, pushed.digest, who)
        assert len(str(error.value).splitlines()) == 1, how
    attach(repository, pushed.digest, "sign.sigstore", keyless.BUNDLE, [part])
    signing.check_image(repository, pushed.digest, who)


@pytest.mark.slow
@pytest.mark.parametrize("late_s", [300, 3600])
@pytest.mark.needs("skopeo")
def test_what_the_log_took_after_the_certificates_end_counts_for_nothing(
    host: str, keys: Path, seal: Sealing, monkeypatch: pytest.MonkeyPatch, late_s: int
) -> None:
    """The certificate is good for ten minutes; with the key that it leaves behind nobody can sign an hour later."""
    repository, who = f"{host}/ml-staging/plain-cu13", keys / "keys" / "staging.yml"
    pushed, authority = image(repository, f"late-{late_s}"), Authority()
    authority.late_s = late_s
    with monkeypatch.context() as unseen:
        unseen.setattr(keyless, "refusal", lambda *_: "")  # whoever forges looks at nothing
        seal(pushed, other=authority)
    (keys / "keys" / "trust.json").write_text(authority.trust("http://127.0.0.1:9"))
    if late_s < 600:
        signing.check_image(repository, pushed.digest, who)
    else:
        with pytest.raises(
            ImageError, match=r"is not signed by the identity in staging.yml: .*(expired|validity|time)"
        ):
            signing.check_image(repository, pushed.digest, who)


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_who_may_not_sign_leaves_nothing(host: str, keys: Path, seal: Sealing) -> None:
    """Another pipeline's token gets a certificate of another identity; without an authority there is none."""
    repository = f"{host}/ml-staging/plain-cu13"
    pushed = image(repository, "nothing")
    with pytest.raises(ImageError, match=r"was signed as somebody else than .*staging.yml asks"):
        seal(pushed, by="release")
    with pytest.raises(ImageError, match=r"was not signed: .*; no tag was set"):
        provenance.attest(
            repository, pushed.digest, {provenance.SLSA: {}}, signing.signer("staging", str(keys / "staging.token"))
        )
    assert attached(repository, pushed.digest, "slsa.sigstore") == []
    assert attached(repository, pushed.digest, "sign.sigstore") == []


def test_a_pipeline_without_a_token_is_told_before_the_work(keys: Path) -> None:
    stale = keys / "stale.token"
    stale.write_text(token(WHO["staging"], ISSUER, minutes=-5))
    (keys / "text").write_text("no token\n")
    for given, phrase in (("", "nothing here gives one out"), (str(keys / "gone"), "No such file"),
                          (str(keys / "text"), "malformed"), (str(stale), "malformed")):  # fmt: skip
        with pytest.raises(ImageError, match=rf"staging.yml: asks for the identity of a pipeline.*{phrase}") as error:
            signing.signer("staging", given)
        assert len(str(error.value).splitlines()) == 1
    (keys / "keys" / "trust.json").write_text("{}")
    with pytest.raises(ImageError, match=r"trust.json: no root of trust for signatures without a key: ."):
        keyless.trust(keys / "keys" / "staging.yml")


NOBODY = ["", "[]", "{", "identity: a\n", "identity: a\nissuer: 7\n", "identity: ''\nissuer: b\n"]


def test_a_file_that_names_nobody_is_refused(keys: Path) -> None:
    for text in (*NOBODY, "identity: a\nissuer: b\nregexp: .*\n"):
        path = keys / "keys" / "staging.yml"
        path.write_text(text)
        with pytest.raises(ImageError, match=r"staging.yml: (expected `identity` and `issuer`|cannot read who signs)"):
            signing.signer("staging", str(keys / "staging.token"))


def test_a_role_has_a_key_or_an_identity(keys: Path) -> None:
    (keys / "keys" / "staging.pub").write_text("a key")
    with pytest.raises(ImageError, match=r"staging.pub and staging.yml: a role signs with a key or without"):
        signing.public_key("staging")
    with pytest.raises(ImageError, match=r"release.yml: already exists"):
        signing.make_key("release", keys / "new.key")
