"""A registry that hangs, is busy, holds a list of images, or whose tags another hand has moved."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime import patience
from image_tools import promote, registry
from image_tools.catalog import ImageError, find_row, lock_path, sha256_of
from image_tools.plan import labels
from image_tools.push import Pushed

from .conftest import CATALOG

DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
REPOSITORY = "host/ml/plain-cu13"


@pytest.fixture
def skopeo(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of what skopeo does next: an exception, or the text of its refusal; then it answers."""
    faults: list[Any] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert options["timeout"] > 0, "a registry that hangs would hang the pipeline"
        fault = faults.pop(0) if faults else None
        if isinstance(fault, Exception):
            raise fault
        return subprocess.CompletedProcess(command, 1 if fault else 0, "fine", fault or "")

    monkeypatch.setattr(patience.subprocess, "run", run)
    monkeypatch.setattr(registry.shutil, "which", lambda _: "/usr/bin/skopeo")
    monkeypatch.setattr(patience, "PAUSES_S", (0, 0))
    return faults


BUSY = [
    subprocess.TimeoutExpired("skopeo", 120),
    "received unexpected HTTP status: 503 Service Unavailable",
    "received unexpected HTTP status: 500 Internal Server Error",
    "toomanyrequests: too many requests",
    "reading manifest v1 in host/ml/x: unknown: slow down",
    "received unexpected HTTP status: 429",
    "dial tcp: lookup host: Temporary failure in name resolution",
    "Get https://host/v2/: read tcp: connection reset by peer",
]


ABSENT = {
    "reading manifest x in host/y: manifest unknown": True,
    "name unknown: The repository with name 'y' does not exist in the registry": True,
    'manifest tagged by "x" is not found': True,
    "unauthorized: access to the requested resource is not authorized": False,
    'error getting credentials - err: exec: "docker-credential-x": executable file not found in $PATH': False,
    "received unexpected HTTP status: 404 was expected, 200 came": False,
}


@pytest.mark.parametrize("fault", ABSENT)
def test_only_what_says_so_is_absent(skopeo: list[Any], fault: str) -> None:
    """What is absent is set anew: a promotion must not take a login that does not work for a tag that is free."""
    skopeo += [fault, fault]
    if ABSENT[fault]:
        assert registry.find("host/y:x") is None
    else:
        with pytest.raises(ImageError, match="does not answer"):
            registry.find("host/y:x")


@pytest.mark.parametrize("fault", BUSY, ids=str)
def test_a_busy_registry_is_asked_again_within_a_limit(skopeo: list[Any], fault: Any) -> None:
    skopeo += [fault, fault]
    assert registry.skopeo("inspect", "x", problem="p") == "fine"
    skopeo += [fault] * 3
    with pytest.raises(ImageError, match=r"^p: "):
        registry.skopeo("inspect", "x", problem="p")
    assert skopeo == [], "it was not asked three times"


def test_a_refusal_is_final(skopeo: list[Any]) -> None:
    skopeo += ["unauthorized: authentication required", "never read"]
    with pytest.raises(ImageError, match="unauthorized"):
        registry.skopeo("inspect", "x", problem="p")
    assert skopeo == ["never read"]


def test_a_list_of_images_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is smoked and released is one image; a list is made of those that passed."""
    told = [{"digest": OTHER, "platform": {"os": "linux", "architecture": "arm64"}}]
    answers = iter([DIGEST, json.dumps({"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": told})])
    monkeypatch.setattr(registry, "skopeo", lambda *_, **__: next(answers))
    arguments = argparse.Namespace(registry="host/ml", staging="", pushed="", digest="")
    with pytest.raises(ImageError, match=r"a list of images for several platforms.*; no tag was set"):
        promote.check_place(Pushed(f"{REPOSITORY}@{DIGEST}", "", ""), ROW, arguments)


@pytest.mark.parametrize("moved", [OTHER, None])
def test_a_tag_that_another_hand_moved_is_set_again(
    moved: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = {f"{REPOSITORY}:2026.11.03": DIGEST, f"{REPOSITORY}:2026.11": moved}
    held = {name: registry.Manifest(digest, (), "") for name, digest in there.items() if digest}
    monkeypatch.setattr(registry, "find", held.get)
    set_again: list[tuple[str, ...]] = []
    monkeypatch.setattr(registry, "set_tag", lambda *tag: set_again.append(tag))
    promote.correct_tags(Pushed(f"host/ml-staging/plain-cu13@{DIGEST}", "", ""), REPOSITORY, ("2026.11.03", "2026.11"))
    assert set_again == [(f"{REPOSITORY}@{DIGEST}", REPOSITORY, "2026.11")]
    assert f"{REPOSITORY}:2026.11: was {moved or 'gone'}; set again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({"2026.11.03": OTHER, "2026.11": DIGEST}, rf"set it back \(make promote IMAGE=plain-cu13 DIGEST={OTHER}\)"),
        ({"2026.11.03": DIGEST, "2026.11.03.2": OTHER, "2026.11": OTHER}, ""),
        ({"2026.11.03": DIGEST}, ""),
        ({"2026.11": OTHER}, "which no promotion released"),
        ({}, ""),
    ],
    ids=["moved", "promoted", "removed", "made by hand", "first"],
)
def test_a_moving_tag_that_no_promotion_set_stops_the_next(
    tags: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {f"{REPOSITORY}:{tag}": registry.Manifest(digest, (), "") for tag, digest in tags.items()}
    monkeypatch.setattr(registry, "find", held.get)
    monkeypatch.setattr(registry, "look_up", held.__getitem__)
    monkeypatch.setattr(registry, "tags", lambda _: [*tags, "packages-0123", "2026.110"])
    if words:
        with pytest.raises(ImageError, match=words):
            promote.check_moving(REPOSITORY, "2026.11")
    else:
        promote.check_moving(REPOSITORY, "2026.11")


class Held:
    """A registry: what it holds, and what it says of that to this account."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shows: bool, lists: bool, tags: dict[str, str]) -> None:
        self.shows, self.lists, self.tags = shows, lists, tags
        monkeypatch.setattr(registry, "skopeo", self.answer)

    def answer(self, action: str, *words: str, problem: str, **_: Any) -> str:
        tag = words[-1].rpartition(":")[2]
        if action == "copy":
            self.tags[tag] = words[-2].rpartition("@")[2]
            return ""
        if not (self.lists if action == "list-tags" else self.shows and tag in self.tags):
            raise ImageError(f"{problem}: manifest unknown")
        if action == "list-tags":
            return json.dumps({"Tags": list(self.tags)})
        return json.dumps({"layers": [], "config": {"digest": OTHER}}) if "--raw" in words else self.tags[tag]


@pytest.mark.parametrize(
    ("shows", "lists", "words"),
    [
        (True, True, ""),
        (False, False, "let the account that releases read what is released"),
        (True, False, "and list its tags"),
    ],
    ids=["readable", "everything is 404", "no list"],
)
def test_a_first_promotion_is_believed_only_of_a_registry_that_can_be_read(
    shows: bool, lists: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says 404 of a tag and of the list would let a dated tag, which never moves, be set anew."""
    held = Held(monkeypatch, shows, lists, {} if shows else {"2026.11": OTHER})
    before = dict(held.tags)
    image = f"host/ml-staging/plain-cu13@{DIGEST}"
    if words:
        with pytest.raises(ImageError, match=f"no release tag was set.*{words}"):
            promote.check_first(image, REPOSITORY, "2026.11")
    else:
        promote.check_first(image, REPOSITORY, "2026.11")
    proof = {f"first-{'a' * 12}": DIGEST}
    assert held.tags == before | proof, "nothing but the proof was set"


def test_a_later_promotion_leaves_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, shows=True, lists=True, tags={"2026.11": OTHER})
    promote.check_first(f"host/ml-staging/plain-cu13@{DIGEST}", REPOSITORY, "2026.11")
    assert held.tags == {"2026.11": OTHER}


def test_a_rollback_records_the_lock_of_the_old_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = find_row(CATALOG, "plain-cu13")
    old = {"config": {"Labels": {"org.gpu-repo-family.lock-sha256": "f" * 64}}}
    monkeypatch.setattr(registry, "config", lambda _: old)
    bill = tmp_path / "sbom" / "plain-cu13.spdx.json"
    made = registry.Manifest(DIGEST, (1,), "")
    entry = promote.entry(row, f"{REPOSITORY}@{DIGEST}", "2026.11.03", made, {}, bill, tmp_path / "released.json")
    assert entry["lock_sha256"] == "f" * 64 != sha256_of(lock_path(row["name"]))


ROW = find_row(CATALOG, "plain-cu13")
LABELS = labels(CATALOG, ROW)
OWN, OCI = "org.gpu-repo-family", "org.opencontainers.image"


@pytest.mark.parametrize(
    ("changed", "older", "words"),
    [
        ({}, False, ""),
        ({f"{OCI}.created": "2020-01-01", f"{OCI}.description": "another"}, False, ""),
        ({f"{OCI}.title": "plain-cu12"}, False, f"{OCI}.title is plain-cu12, not plain-cu13"),
        ({f"{OCI}.version": "2020.01"}, False, f"{OCI}.version is 2020.01, not"),
        ({f"{OWN}.lock-sha256": "f" * 64}, False, f"{OWN}.lock-sha256 is ffff"),
        ({f"{OWN}.cuda": None}, False, f"{OWN}.cuda is missing, not"),
        ({"architecture": "arm64"}, False, "it is for linux/arm64, not linux/amd64"),
        ({f"{OCI}.version": "2020.01", f"{OWN}.lock-sha256": "f" * 64}, True, ""),
        ({f"{OCI}.title": "plain-cu12"}, True, f"{OCI}.title is plain-cu12"),
        ({"architecture": "arm64"}, True, "it is for linux/arm64"),
        (dict.fromkeys(LABELS), True, f"{OCI}.title is missing"),
    ],
)
def test_an_image_has_to_say_that_it_is_the_rows(
    changed: dict[str, str | None], older: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repository and tag are names that anybody who may push can give; an older image may be of an older row."""
    given = {key: value for key, value in (LABELS | changed).items() if value is not None}
    config = {"os": "linux", "architecture": given.pop("architecture", "amd64"), "config": {"Labels": given}}
    monkeypatch.setattr(registry, "config", lambda _: config)
    if not words:
        promote.check_labels(CATALOG, ROW, f"{REPOSITORY}@{DIGEST}", older)
        return
    with pytest.raises(ImageError, match=re.escape(words)) as error:
        promote.check_labels(CATALOG, ROW, f"{REPOSITORY}@{DIGEST}", older)
    assert str(error.value).endswith("; no tag was set")
