"""Give a digest that passed its smoke test the release tags; nothing is built again."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import cosign, registry
from .build import check_engine
from .build_plan import OCI_PREFIX, labels, platform_of
from .ca_certificates import check_roots
from .catalog import BUILD, ImageError, differences, find_row
from .provenance import check_provenance, predicate
from .push import push_signed, staging_of, told_or_pushed
from .record import RECORD, Pushed, check_writable, entry, read_record, write_entry
from .sbom import packages_id, packages_of, write_sbom
from .smoke import check_record, demanded, pull, smoke_digest, told_record


def dated_tag(repository: str, release: str, digest: str) -> str:
    """Return the immutable tag for today: RELEASE.DAY, with a number behind it when that day has another digest."""
    day = f"{release}.{datetime.now(UTC):%d}"
    for number in range(1, 100):
        tag = day if number == 1 else f"{day}.{number}"
        found = registry.find(f"{repository}:{tag}")
        if found is None or found.digest == digest:
            return tag
    raise ImageError(f"{repository}: a hundred promotions on {day}; look at what runs this")


def is_promoted(repository: str, moving: str, packages: str) -> bool:
    """Tell whether the moving tag, what was promoted last, is the image that has these packages (their own tag)."""
    last, same = registry.find(f"{repository}:{moving}"), registry.find(f"{repository}:{packages}")
    return last is not None and same is not None and same.digest == last.digest


def check_place(pushed: Pushed, row: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Raise ImageError unless an image is in this row's staging repository."""
    repository = f"{staging_of(arguments)}/{row['name']}"
    if pushed.image.rpartition("@")[0] != repository:
        raise ImageError(f"{pushed.image}: is not in {repository}; no tag was set")
    registry.look_up(pushed.image)


def check_labels(catalog: dict[str, Any], row: dict[str, Any], image: str) -> None:
    """Raise ImageError when an image does not say of itself that it is this row's: its repository is a name only."""
    found = registry.config(image)
    told = (found.get("config") or {}).get("Labels") or {}
    platform = f"{found.get('os')}/{found.get('architecture')}"
    wanted = labels(catalog, row)
    for key in ("created", "description"):  # about the time and in words: nothing that an image can do
        del wanted[f"{OCI_PREFIX}.{key}"]
    wrong = [
        f"{key} is {told.get(key, 'missing')}, not {value}" for key, value in wanted.items() if told.get(key) != value
    ]
    wrong += [f"it is for {platform}, not {platform_of(row)}"] if platform != platform_of(row) else []
    if wrong:
        raise ImageError(f"{image}: is not what the row {row['name']} says: {'; '.join(wrong)}; no tag was set")


def check_signed(pushed: Pushed, row: dict[str, Any]) -> dict[str, Any] | None:
    """Return how an image was made, as who pushed it signed it; raise ImageError unless the key that counts did.

    Which key counts is said by base-images/keys alone, and by no variable: without a key there, none is asked for.
    """
    public = cosign.public_key("staging")
    if public is None:
        return None
    cosign.check(pushed.image, public)
    return check_provenance(row, pushed, public)


def seal(image: str, bill: Path, made_so: dict[str, Any], by: cosign.Signer | None) -> None:
    """Put how a released image was made and its list of packages beside it, and sign all of it."""
    if by:
        cosign.attest(image, cosign.SLSA, made_so, by)
        cosign.attest(image, cosign.SPDX, json.loads(bill.read_text()), by)
        cosign.sign(image, by)


def verify(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Check what is released, or a digest, against base-images/keys/release.pub or .yml. Raises ImageError."""
    row, public = find_row(catalog, arguments.image), cosign.public_key("release")
    digest = arguments.digest or read_record(RECORD).get(row["name"], {}).get("digest")
    if public is None:
        raise ImageError("nothing to verify: there is no base-images/keys/release.pub or release.yml")
    if not digest:
        raise ImageError(f"nothing to verify: there is no release of {row['name']}; give DIGEST")
    pushed = Pushed(f"{arguments.registry}/{row['name']}@{digest}", "", "")
    cosign.check(pushed.image, public)
    made_so = check_provenance(row, pushed, public)
    commit = made_so["buildDefinition"]["externalParameters"]["commit"]
    print(f"{pushed.image}: signed by {public.name}, built from commit {commit}")


def promote(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Give a digest whose smoke test allows it the dated and the moving tag; the record is written last."""
    row = find_row(catalog, arguments.image)
    check_engine()
    path = Path(arguments.record) if arguments.record else RECORD
    check_writable(path)
    key = cosign.signer("release", arguments.sign)
    repository, require = f"{arguments.registry}/{row['name']}", arguments.require or demanded(row)
    named = arguments.digest or arguments.pushed
    pushed = told_or_pushed(arguments) if named else push_signed(catalog, row, arguments)
    known = (read_record(path) or read_record(RECORD)).get(row["name"], {})
    if known.get("digest") == pushed.digest and known.get("smoke", {}).get("require") == require:
        for tag in (known["tag"], str(catalog["release"])):
            registry.set_tag(f"{repository}@{known['digest']}", repository, tag)
        print(f"{repository}@{pushed.digest}: promoted already as {known['tag']}; nothing to do")
        return
    check_place(pushed, row, arguments)
    made_so = check_signed(pushed, row) or predicate(catalog, row, pushed)
    check_labels(catalog, row, pushed.image)
    smoke, made = prove(row, pushed, require, arguments)
    packages = f"packages-{packages_id(made)}"
    if arguments.only_changed and is_promoted(repository, str(catalog["release"]), packages):
        print(f"{pushed.image}: the packages are those of what was promoted last; not promoted")
        return
    if arguments.only_changed and known:
        print("\n".join(differences(packages_of(RECORD.parent / known["sbom"]), packages_of(made))))
    bill = path.parent / "sbom" / made.name
    bill.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, bill)
    registry.set_tag(pushed.image, repository, packages)
    released = replace(pushed, image=f"{repository}@{pushed.digest}")
    seal(released.image, bill, made_so, key)
    tag = dated_tag(repository, str(catalog["release"]), pushed.digest)
    for name in (tag, str(catalog["release"])):
        registry.set_tag(released.image, repository, name)
    write_entry(path, row["name"], entry(row, released.image, tag, smoke, str(bill.relative_to(path.parent))))
    print(f"{repository}:{tag} is {pushed.digest}; recorded in {path}")


def prove(
    row: dict[str, Any], pushed: Pushed, require: str, arguments: argparse.Namespace
) -> tuple[dict[str, Any], Path]:
    """Return what the record keeps of an image's smoke test, run here or told, and its list of packages.

    Raises ImageError where the test does not allow a release, or the image trusts a root that nobody named.
    """
    if arguments.smoke:
        record = told_record(Path(arguments.smoke))
        smoke = check_record(record, row, pushed, require)
        pull(pushed.image)
    else:
        record = smoke_digest(pushed, require)
        smoke = check_record(record, row, pushed, require)
    check_roots(pushed.image, record)
    return smoke, write_sbom(row["name"], pushed.image, BUILD)
