"""Signatures, provenance and lists of packages beside an image: in a real registry, without a network or cosign."""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from image_tools import artifacts, promote, provenance, registry, signing
from image_tools.artifacts import Part, as_json, attach, attached, digest_of
from image_tools.catalog import ImageError, find_row
from image_tools.push import Pushed

from .conftest import CATALOG
from .registries import running

ROW = find_row(CATALOG, "plain-cu13")
COMMIT = "c" * 40


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry on this machine."""
    with running(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of keys: pairs for both roles, their public halves where promotion looks for them."""
    monkeypatch.setattr(signing, "KEYS", tmp_path / "keys")
    monkeypatch.delenv("SIGN_PASSWORD", raising=False)
    for role in signing.ROLES:
        signing.make_key(role, tmp_path / f"{role}.key")
    return tmp_path


def image(repository: str, content: str) -> Pushed:
    """Push an image of one layer; return it as a push notes it."""
    layer = Part("application/vnd.oci.image.layer.v1.tar", content.encode(), {})
    config = artifacts.config_of([layer])
    told = {"schemaVersion": 2, "mediaType": artifacts.MANIFEST}
    told |= {"config": artifacts.described(artifacts.CONFIG, config)}
    manifest = as_json(told | {"layers": [artifacts.described(layer.kind, layer.content)]})
    with artifacts.scratch() as folder:
        artifacts.write_layout(Path(folder) / "layout", manifest, [config, layer.content])
        registry.push_layout(Path(folder) / "layout", f"{repository}:any")
    return Pushed(f"{repository}@{digest_of(manifest)}", COMMIT, "2026-11-23T08:00:00+00:00")


def seal(pushed: Pushed, key: Path, **changes: Any) -> None:
    """Sign an image and how it was made, as a push does."""
    repository, private = pushed.image.rpartition("@")[0], signing.read_private(key)
    told = provenance.predicate(CATALOG, ROW | changes, pushed)
    provenance.attest(repository, pushed.digest, {provenance.SLSA: told}, private)
    signing.sign_image(repository, pushed.digest, private)


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_what_is_signed_and_by_whom_is_told_apart(host: str, keys: Path) -> None:
    """Unsigned, by another key, of another image, under another name: each is refused with its reason."""
    repository = f"{host}/ml-staging/plain-cu13"
    pushed, public = image(repository, "one"), keys / "keys" / "staging.pub"
    with pytest.raises(ImageError, match=r"is not signed by staging.pub: no signature; no tag was set"):
        signing.check_image(repository, pushed.digest, public)
    signing.sign_image(repository, pushed.digest, signing.read_private(keys / "release.key"))
    with pytest.raises(ImageError, match="1 signatures, none from this key"):
        signing.check_image(repository, pushed.digest, public)
    signing.sign_image(repository, pushed.digest, signing.read_private(keys / "staging.key"))
    signing.check_image(repository, pushed.digest, public)
    signing.check_image(repository, pushed.digest, keys / "keys" / "release.pub")
    before = attached(repository, pushed.digest, "sig")
    signing.sign_image(repository, pushed.digest, signing.read_private(keys / "staging.key"))
    assert attached(repository, pushed.digest, "sig") == before, "signed again, it has one signature more"

    other = image(repository, "other")
    attach(repository, other.digest, "sig", signing.ARTIFACT, before)
    with pytest.raises(ImageError, match=r"the signature by staging.pub is about another image"):
        signing.check_image(repository, other.digest, public)
    elsewhere = f"{host}/evil/plain-cu13"
    assert image(elsewhere, "one").digest == pushed.digest
    attach(elsewhere, pushed.digest, "sig", signing.ARTIFACT, before)
    with pytest.raises(ImageError, match="is about another image"):
        signing.check_image(elsewhere, pushed.digest, public)


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_the_signature_is_in_cosigns_format(host: str, keys: Path) -> None:
    """By its specification: the tag, the layer's type and note, the words of the text, the signature over its bytes."""
    repository = f"{host}/ml/plain-cu13"
    pushed = image(repository, "cosign")
    signing.sign_image(repository, pushed.digest, signing.read_private(keys / "release.key"))
    raw = registry.raw_manifest(f"{repository}:sha256-{pushed.digest[7:]}.sig")
    told = json.loads(raw)
    assert told["subject"]["digest"] == pushed.digest, "a registry with the referrers API would not list it"
    [layer] = told["layers"]
    assert layer["mediaType"] == "application/vnd.dev.cosign.simplesigning.v1+json"
    [part] = attached(repository, pushed.digest, "sig")
    assert json.loads(part.content) == {
        "critical": {
            "identity": {"docker-reference": repository},
            "image": {"docker-manifest-digest": pushed.digest},
            "type": "cosign container image signature",
        },
        "optional": None,
    }
    key = load_pem_public_key((keys / "keys" / "release.pub").read_bytes())
    assert isinstance(key, EllipticCurvePublicKey)
    key.verify(
        base64.b64decode(layer["annotations"]["dev.cosignproject.cosign/signature"]), part.content, ECDSA(SHA256())
    )


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_provenance_is_of_the_row_and_the_commit(host: str, keys: Path) -> None:
    repository, public = f"{host}/ml-staging/plain-cu13", keys / "keys" / "staging.pub"
    pushed = image(repository, "made")
    with pytest.raises(ImageError, match=r"has no provenance signed by staging.pub"):
        provenance.check_provenance(ROW, pushed, public)
    seal(pushed, keys / "staging.key")
    told = provenance.check_provenance(ROW, pushed, public)
    digests = [list(one.get("digest", {})) for one in told["buildDefinition"]["resolvedDependencies"]]
    assert digests[:2] == [["gitCommit"], ["sha256"]], "the commit and the lock are named by their hashes"
    with pytest.raises(ImageError, match=f"was built from commit {COMMIT}, not {'d' * 40}"):
        provenance.check_provenance(ROW, Pushed(pushed.image, "d" * 40, ""), public)
    seal(pushed, keys / "release.key")
    with pytest.raises(ImageError, match=r"no provenance signed by staging.pub"):
        provenance.check_provenance(ROW, pushed, public)
    seal(pushed, keys / "staging.key", name="plain-cu12")
    with pytest.raises(ImageError, match="was built from row plain-cu12, not plain-cu13"):
        provenance.check_provenance(ROW, pushed, public)


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_a_statement_about_another_image_says_nothing_of_this_one(host: str, keys: Path) -> None:
    repository, public = f"{host}/ml-staging/plain-cu13", keys / "keys" / "staging.pub"
    one, other = image(repository, "mine"), image(repository, "yours")
    seal(one, keys / "staging.key")
    attach(repository, other.digest, "att", provenance.PAYLOAD, attached(repository, one.digest, "att"))
    with pytest.raises(ImageError, match="has no provenance signed by"):
        provenance.check_provenance(ROW, other, public)


def test_changed_bytes_are_no_signed_statement(keys: Path) -> None:
    private = signing.read_private(keys / "staging.key")
    made = provenance.enveloped("r", digest_of(b"x"), provenance.SLSA, {"a": 1}, private)
    assert provenance.opened(made, private.public_key())
    envelope = json.loads(made.content)
    payload = base64.b64decode(envelope["payload"]).replace(b'"a":1', b'"a":2')
    changed = envelope | {"payload": base64.b64encode(payload).decode()}
    for told in (as_json(changed), as_json(envelope | {"payloadType": "text/plain"}), b"{", b"[]", b'{"payload": 1}'):
        assert provenance.opened(Part(made.kind, told, {}), private.public_key()) is None


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_promotion_asks_for_the_key_that_the_repository_names(host: str, keys: Path) -> None:
    """No option or variable decides: a key under base-images/keys is asked for, and without one none is."""
    staging, releases = f"{host}/ml-staging/plain-cu13", f"{host}/ml/plain-cu13"
    pushed = image(staging, "candidate")
    with pytest.raises(ImageError, match=r"is not signed by staging.pub"):
        promote.check_signed(pushed, ROW, releases, older=False)
    seal(pushed, keys / "staging.key")
    assert promote.check_signed(pushed, ROW, releases, older=False)
    later = Pushed(pushed.image, "e" * 40, "")
    assert promote.check_signed(later, ROW, releases, older=True), "one cannot go back to an image of an older commit"
    with pytest.raises(ImageError, match="was built from commit"):
        promote.check_signed(later, ROW, releases, older=False)
    with pytest.raises(ImageError, match=r"exists, so images must be signed: pass SIGN=file"):
        signing.signer("release", "")
    with pytest.raises(ImageError, match=r"staging.key: does not match .*release.pub"):
        signing.signer("release", str(keys / "staging.key"))
    (keys / "keys" / "staging.pub").unlink()
    (keys / "keys" / "release.pub").unlink()
    assert promote.check_signed(image(staging, "unsigned"), ROW, releases, older=False) is None
    assert signing.signer("release", "") is None


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_a_release_has_its_list_its_making_and_its_signature_beside_it(
    host: str, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make verify` then needs the registry and the public key alone."""
    releases = f"{host}/ml/plain-cu13"
    pushed, bill = image(releases, "released"), keys / "plain-cu13.spdx.json"
    bill.write_text('{"spdxVersion": "SPDX-2.3"}\n')
    key = signing.signer("release", str(keys / "release.key"))
    arguments = argparse.Namespace(image="plain-cu13", registry=f"{host}/ml", digest=pushed.digest)
    with pytest.raises(ImageError, match=r"is not signed by release.pub"):
        promote.verify(CATALOG, arguments)
    promote.seal(CATALOG, ROW, pushed, releases, bill, None, key)
    promote.verify(CATALOG, arguments)
    assert f"built from commit {COMMIT}" in capsys.readouterr().out
    [listed] = attached(releases, pushed.digest, "sbom")
    assert (listed.kind, listed.content) == ("application/spdx+json", bill.read_bytes())
    told = provenance.attested(releases, pushed.digest, keys / "keys" / "release.pub")
    assert told[provenance.SPDX] == {"spdxVersion": "SPDX-2.3"}


def test_a_pair_of_keys_is_made_once_and_kept_secret(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = keys / "release.key"
    assert private.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ImageError, match="already exists"):
        signing.make_key("release", keys / "another.key")
    with pytest.raises(ImageError, match="expected staging or release"):
        signing.make_key("../evil", keys / "another.key")
    assert not (keys / "another.key").exists()
    (keys / "keys" / "staging.pub").unlink()
    monkeypatch.setenv("SIGN_PASSWORD", "a word")
    signing.make_key("staging", keys / "closed.key")
    assert b"ENCRYPTED" in (keys / "closed.key").read_bytes()
    assert signing.read_private(keys / "closed.key")
    monkeypatch.delenv("SIGN_PASSWORD")
    for path in (keys / "closed.key", keys / "missing.key", keys / "keys" / "release.pub"):
        with pytest.raises(ImageError, match="cannot read the signing key") as error:
            signing.read_private(path)
        assert len(str(error.value).splitlines()) == 1


@pytest.mark.slow
@pytest.mark.needs("skopeo")
def test_a_promotion_checks_first_seals_and_tags_last(
    host: str, keys: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An unsigned image gets no tag; where the release cannot be sealed, neither does a signed one."""
    staging, releases = f"{host}/seal-staging/plain-cu13", f"{host}/seal/plain-cu13"
    pushed = image(staging, "promoted")
    bill = tmp_path / "made" / "plain-cu13.spdx.json"
    bill.parent.mkdir()
    bill.write_text('{"packages": []}\n')
    monkeypatch.setattr(promote, "check_labels", lambda *_: None)
    monkeypatch.setattr(promote, "smoke_digest", lambda *_: {})
    monkeypatch.setattr(promote, "check_record", lambda *_: {"require": "none"})
    monkeypatch.setattr(promote, "write_sbom", lambda *_: bill)
    given = {"image": "plain-cu13", "registry": f"{host}/seal", "digest": pushed.digest, "require": "none"}
    given |= {"record": str(tmp_path / "released.json"), "sign": str(keys / "release.key"), "only_changed": False}
    arguments = argparse.Namespace(**dict.fromkeys(("staging", "pushed", "smoke", "source"), ""), **given)
    with pytest.raises(ImageError, match=r"is not signed by staging\.pub"):
        promote.promote(CATALOG, arguments)
    assert registry.tags(releases) == []

    seal(pushed, keys / "staging.key")
    with monkeypatch.context() as broken:
        broken.setattr(promote, "sign_image", lambda *_: (_ for _ in ()).throw(ImageError("the registry is away")))
        with pytest.raises(ImageError, match="the registry is away"):
            promote.promote(CATALOG, arguments)
    assert CATALOG["release"] not in registry.tags(releases)
    assert not (tmp_path / "released.json").exists()

    promote.promote(CATALOG, arguments)
    assert registry.look_up(f"{releases}:{CATALOG['release']}").digest == pushed.digest
    promote.verify(CATALOG, arguments)
