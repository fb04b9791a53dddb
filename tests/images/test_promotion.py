"""What gets release tags: a digest that passed its smoke test, is the row's, and is signed where a key is named."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ci.registry import Registry

from .authority import Authority, answering, token
from .parent import CATALOG, NAME, Parent

pytestmark = [pytest.mark.images, pytest.mark.needs("skopeo")]
RELEASE = str(CATALOG["release"])
LABEL = "org.gpu-repo-family.lock-sha256"


@pytest.fixture
def parent(client: object, tmp_path: Path) -> Iterator[Parent]:
    """A parent with an empty registry on the loopback."""
    (tmp_path / "parent").mkdir()
    with Registry() as registry:
        made = Parent(tmp_path / "parent", registry)
        yield made
        image = f"{made.repository}:{RELEASE}"
        subprocess.run(["docker", "image", "rm", "--force", image], check=False, capture_output=True)
        registry.shutdown()


PROMOTE = ("promote", "--image", NAME, "--require", "none")


def test_what_passes_is_released_once_and_can_be_gone_back_to(parent: Parent) -> None:
    """Both tags are the digest that was tested; the same content built again is recognised; a rollback needs no GPU."""
    parent.build("one")
    parent.works(*PROMOTE)
    one = parent.released()
    assert parent.tags() == {one["tag"]: one["digest"], RELEASE: one["digest"]}
    assert one["smoke"] == {"require": "none", "verdict": "pass", "on_a_gpu": False, "layers": {"runtime": "pass"}}
    assert one["compressed_bytes"] == sum(one["layers"]) > 1_000_000
    bill = json.loads((parent.record.parent / one["sbom"]).read_text())
    assert any(package["name"] == "bash" for package in bill["packages"]), "no package of Debian is listed"
    assert one["digest"] in json.dumps(bill), "the list does not name the image by its digest"

    parent.build("one", **{"org.opencontainers.image.created": "another time"})
    said = parent.works(*PROMOTE)
    assert parent.released() == one
    assert "the same content exists there" in said
    assert "nothing to do" in said

    parent.commit()
    parent.build("two")
    said = parent.works(*PROMOTE, "--only-changed")
    assert "the packages are those of what was promoted last; not promoted" in said
    assert parent.released() == one
    parent.works(*PROMOTE)
    two = parent.released()
    assert two["tag"] != one["tag"]
    parent.commit()
    parent.works("roll-back", "--image", NAME)
    assert parent.released() == one
    assert parent.tags() == {one["tag"]: one["digest"], two["tag"]: two["digest"], RELEASE: one["digest"]}
    parent.works("roll-back", "--image", NAME, "--digest", two["digest"])
    assert parent.released() == two
    parent.refuses("no release of plain-cu13 with", "roll-back", "--image", NAME, "--digest", f"sha256:{'0' * 64}")


@pytest.mark.parametrize(
    ("ends", "changed", "arguments", "reason"),
    [
        (1, {}, (), "the smoke test ended with 1; no tag was set"),
        (0, {LABEL: "f" * 64}, (), f"{LABEL} is ffff"),
        (0, {"org.opencontainers.image.title": "plain-cu12"}, (), "title is plain-cu12, not plain-cu13"),
        (0, {}, ("--record", "missing/released.json"), "cannot write the release record"),
        (0, {}, ("--digest", f"sha256:{'0' * 64}"), "the registry does not answer or has no such image"),
        (0, {}, ("--staging", "localhost:1/elsewhere"), "the registry does not answer"),
        (0, {}, ("--sign", "/missing.key"), "release.pub is missing"),
    ],
    ids=["smoke", "lock", "title", "record", "digest", "registry", "key"],
)
def test_nothing_else_gets_a_tag(
    parent: Parent, ends: int, changed: dict[str, str], arguments: tuple[str, ...], reason: str
) -> None:
    parent.build("bad", ends, **changed)
    parent.refuses(reason, *PROMOTE, *arguments)
    assert (parent.tags(), parent.released()) == ({}, {})


def test_the_report_of_another_machine_has_to_be_of_this_push(parent: Parent) -> None:
    """`make promote SMOKE=report PUSHED=file`, as CI does: an empty, a failed or a foreign report gives no tag."""
    parent.build("elsewhere")
    parent.works("push", "--image", NAME)
    parent.works("smoke-digest", "--image", NAME, "--require", "none")
    report = parent.folder / "build" / "images" / "smoke" / f"{NAME}.json"
    told = ("--pushed", str(note(parent)), "--smoke", str(report))
    right = json.loads(report.read_text())
    failed = right | {"report": right["report"] | {"verdict": "fail"}}
    for wrong in ({}, failed, right | {"commit": "f" * 40}, right | {"pushed": "2020-01-01"}):
        report.write_text(json.dumps(wrong))
        parent.refuses("no tag was set", *PROMOTE, *told)
    assert (parent.tags(), parent.released()) == ({}, {})
    report.write_text(json.dumps(right))
    parent.works(*PROMOTE, *told)
    assert parent.tags()[RELEASE] == parent.released()["digest"]


def note(parent: Parent) -> Path:
    """Return the file in which `make push` notes what it pushed."""
    return parent.folder / "build" / "images" / "pushed" / f"{NAME}.json"


def test_a_foreign_image_under_the_staging_tag_is_replaced(parent: Parent) -> None:
    """The tag is named after the content: another image under it is found out, and the right one takes its place."""
    pushed = {}
    for content in ("right", "foreign"):
        parent.build(content)
        said = parent.works("push", "--image", NAME)
        pushed[content] = re.findall(rf"({parent.staging}:staging-\w+): pushed (sha256:\w+)", said)[0]
    (right, digest), (foreign, _) = pushed["right"], pushed["foreign"]
    options = ["--quiet", "--src-tls-verify=false", "--dest-tls-verify=false"]
    subprocess.run(["skopeo", "copy", *options, f"docker://{foreign}", f"docker://{right}"], check=True)
    parent.build("right")
    said = parent.works("push", "--image", NAME)
    assert f"{right}: holds another image" in said
    assert f"{right}: pushed {digest}" in said
    assert json.loads(note(parent).read_text())["image"] == f"{parent.staging}@{digest}"


@pytest.mark.needs("cosign")
def test_a_key_in_the_repository_is_asked_for_at_every_step(parent: Parent) -> None:
    """No key, another one, an image of another commit or signer: no tag. `make verify` reads what is released."""
    staging, release = parent.key("staging"), parent.key("release")
    stranger = Parent(parent.folder.with_name("other"), parent.registry)
    other = stranger.key("release", "other")
    parent.build("signed")
    push = ("push", "--image", NAME)
    parent.refuses("so images must be signed: pass SIGN=file", *push)
    parent.refuses("cannot read the signing key", *push, "--sign", "/missing.key")
    for key in (other, release):
        parent.refuses("does not match", *push, "--sign", key)
    parent.works(*push, "--sign", staging)
    pushed = json.loads(note(parent).read_text())
    told = ("--digest", pushed["image"].rpartition("@")[2])

    parent.commit()
    parent.refuses("does not match", *PROMOTE, *told, "--sign", staging)
    parent.refuses(f"commit {pushed['commit']}, not row plain-cu13, commit", *PROMOTE, *told, "--sign", release)
    parent.git("reset", "--quiet", "--hard", pushed["commit"])
    public = parent.folder / "base-images" / "keys" / "staging.pub"
    right = public.read_text()
    public.write_text((stranger.folder / "base-images" / "keys" / "release.pub").read_text())
    parent.refuses("is not signed by staging.pub; no tag was set", *PROMOTE, *told, "--sign", release)
    assert (parent.tags(), parent.released()) == ({}, {})

    public.write_text(right)
    parent.works(*PROMOTE, *told, "--sign", release)
    assert parent.tags()[RELEASE] == told[1]
    verify = ("verify", "--image", NAME)
    assert f"signed by release.pub, built from commit {pushed['commit']}" in parent.works(*verify)
    parent.build("unsigned")
    unsigned = f"{parent.repository}:{RELEASE}"
    subprocess.run(["docker", "push", "--quiet", unsigned], check=True, capture_output=True)
    parent.refuses("is not signed by release.pub", *verify, "--digest", parent.tags()[RELEASE])


@pytest.mark.needs("cosign")
def test_an_identity_signs_without_a_key(parent: Parent) -> None:
    """By a made-up Sigstore. An identity or issuer other than the file names is rejected; checks need no service."""
    keys, issuer = parent.folder / "base-images" / "keys", "https://issuer.example.com"
    tokens = {role: parent.folder.parent / f"{role}.token" for role in ("staging", "release")}
    for role, file in tokens.items():
        (keys / f"{role}.yml").write_text(f"identity: https://ci.example.com/{role}\nissuer: {issuer}\n")
        file.write_text(token(f"https://ci.example.com/{role}", issuer))
    parent.build("keyless")
    authority, told = Authority(), ("--pushed", str(note(parent)), "--sign", str(tokens["release"]))
    right = (keys / "staging.yml").read_text()
    with answering(authority) as address:
        authority.write_trust(keys, address)
        parent.commit()
        parent.works("push", "--image", NAME, "--sign", str(tokens["staging"]))
        for wrong in (right.replace("/staging", "/release"), right.replace(issuer, "https://elsewhere.example.com")):
            (keys / "staging.yml").write_text(wrong)
            parent.refuses("is not signed by staging.yml; no tag was set", *PROMOTE, *told)
        (keys / "staging.yml").write_text(right)
        parent.works(*PROMOTE, *told)
    said = parent.works("verify", "--image", NAME)
    assert f"signed by release.yml, built from commit {json.loads(note(parent).read_text())['commit']}" in said
    (keys / "release.pub").write_text("a key")
    parent.refuses("a role signs with a key or without", "verify", "--image", NAME)
