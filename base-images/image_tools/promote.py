"""Give a digest that passed its smoke test the release tags; nothing is built again."""

import argparse
import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from . import registry
from .artifacts import Part, attach
from .catalog import BUILD, ImageError, find_row, lock_path, sha256_of
from .forwards import reason_to_stay
from .plan import LABEL_PREFIX, OCI_PREFIX, PLATFORM, labels
from .provenance import SLSA, SPDX, attest, check_provenance, predicate
from .push import Pushed, push_signed, pushed_content, read_pushed, staging_of, told_or_pushed
from .record import RECORD, check_writable, read_record, write_entry
from .roots import check_roots
from .sbom import package_changes, packages_id, write_sbom
from .signing import check_image, public_key, sign_image, signer
from .smoke import check_record, demanded, pull, smoke_digest, told_record
from .system import check_system
from .weaknesses.audit import check_bill

SPDX_TYPE = "application/spdx+json"


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
    return last is not None and same is not None and last.digest == same.digest


def candidate(catalog: dict[str, Any], row: dict[str, Any], arguments: argparse.Namespace) -> Pushed:
    """Return what is to be promoted: noted by a push elsewhere, told by its digest, or pushed now."""
    if arguments.pushed:
        return read_pushed(Path(arguments.pushed))
    if not arguments.digest:
        return push_signed(catalog, row, arguments)
    told = told_or_pushed(arguments)
    if registry.find(told.image):
        return told
    return Pushed(f"{arguments.registry}/{row['name']}@{told.digest}", told.commit, "")  # released once: a rollback


def check_place(pushed: Pushed, row: dict[str, Any], arguments: argparse.Namespace) -> registry.Manifest:
    """Return what the registry holds; raise ImageError when it is not the image of this row's repositories.

    What a push noted has to stand under the staging tag of its content: a tag's name alone proves nothing.
    """
    repositories = [f"{home}/{row['name']}" for home in (staging_of(arguments), arguments.registry)]
    repository = pushed.image.rpartition("@")[0]
    if repository not in repositories:
        raise ImageError(f"{pushed.image}: is not in {' or '.join(repositories)}; no tag was set")
    manifest = registry.look_up(pushed.image)
    if arguments.pushed:
        tag = f"{repository}:staging-{pushed_content(pushed.image)}"
        found = registry.find(tag)
        if found is None or found.digest != pushed.digest:
            held = found.digest if found else "nothing"
            raise ImageError(f"{tag}: holds {held}, not {pushed.digest}; no tag was set: push it again")
    return manifest


def check_labels(catalog: dict[str, Any], row: dict[str, Any], image: str, older: bool) -> None:
    """Raise ImageError when an image does not say of itself that it is this row's: its repository is a name only.

    older: the image that one goes back to may come from an older row; then only what no row changes is compared.
    """
    found = registry.config(image)
    told = (found.get("config") or {}).get("Labels") or {}
    platform = f"{found.get('os')}/{found.get('architecture')}"
    wanted = labels(catalog, row)
    for key in ("created", "description"):  # about the time and in words: nothing that an image can do
        del wanted[f"{OCI_PREFIX}.{key}"]
    if older:
        wanted = {key: wanted[key] for key in (f"{OCI_PREFIX}.title", f"{LABEL_PREFIX}.framework")}
    wrong = [
        f"{key} is {told.get(key, 'missing')}, not {value}" for key, value in wanted.items() if told.get(key) != value
    ]
    wrong += [f"it is for {platform}, not {PLATFORM}"] if platform != PLATFORM else []
    if wrong:
        raise ImageError(f"{image}: is not what the row {row['name']} says: {'; '.join(wrong)}; no tag was set")


def check_signed(pushed: Pushed, row: dict[str, Any], releases: str, older: bool) -> dict[str, Any] | None:
    """Return how an image was made, as who pushed it signed it; raise ImageError unless the key that counts did.

    Which key counts is said by base-images/keys alone, and by no variable: without a key there, none is asked for.
    older: the image that one goes back to comes from another commit.
    """
    repository = pushed.image.rpartition("@")[0]
    public = public_key("release" if repository == releases else "staging")
    if public is None:
        return None
    check_image(repository, pushed.digest, public)
    return check_provenance(row, replace(pushed, commit="") if older else pushed, public)


def seal(
    catalog: dict[str, Any],
    row: dict[str, Any],
    pushed: Pushed,
    repository: str,
    bill: Path,
    made_so: dict[str, Any] | None,
    key: EllipticCurvePrivateKey | None,
) -> None:
    """Put the list of packages beside a released digest; with a key, how it was made too, and all of it signed."""
    content = bill.read_bytes()
    attach(repository, pushed.digest, "sbom", SPDX_TYPE, [Part(SPDX_TYPE, content, {})])
    if key is None:
        return
    told = {SLSA: made_so or predicate(catalog, row, pushed), SPDX: json.loads(content)}
    attest(repository, pushed.digest, told, key)
    sign_image(repository, pushed.digest, key)


def verify(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Check what is released, or a digest, against base-images/keys/release.pub. Raises ImageError."""
    row, public = find_row(catalog, arguments.image), public_key("release")
    digest = arguments.digest or read_record(RECORD).get(row["name"], {}).get("digest")
    if public is None or not digest:
        lacks = "no base-images/keys/release.pub" if public is None else f"no release of {row['name']}; give DIGEST"
        raise ImageError(f"nothing to verify: there is {lacks}")
    pushed = Pushed(f"{arguments.registry}/{row['name']}@{digest}", "", "")
    check_image(f"{arguments.registry}/{row['name']}", digest, public)
    made_so = check_provenance(row, pushed, public)
    commit = made_so["buildDefinition"]["externalParameters"]["commit"]
    print(f"{pushed.image}: signed by {public.name}, built from commit {commit}")


def check_moving(repository: str, moving: str) -> None:
    """Raise ImageError when the moving tag is not what a promotion gave it, which then has a dated tag too.

    Whoever moved it by hand had a reason that nobody wrote down, or no right to: a person has to look first.
    """
    found = registry.find(f"{repository}:{moving}")
    if found is None:
        return
    dated = [tag for tag in registry.tags(repository) if re.fullmatch(rf"{re.escape(moving)}\.\d\d(\.\d+)?", tag)]
    promoted = {tag: registry.look_up(f"{repository}:{tag}").digest for tag in dated}
    if found.digest not in promoted.values():
        last = max(promoted, key=lambda tag: [int(part) for part in tag.split(".")], default="")
        row = repository.rpartition("/")[2]
        way = f"set it back (make promote IMAGE={row} DIGEST={promoted[last]})" if last else "remove it"
        raise ImageError(
            f"{repository}:{moving}: is {found.digest}, which no promotion released; no tag was set. "
            f"Look who moved it, then {way}"
        )


def check_first(image: str, repository: str, moving: str) -> None:
    """Raise ImageError where a registry that shows no release of the row cannot be read: only then is it the first."""
    if registry.find(f"{repository}:{moving}") is None:
        registry.prove_readable(image, repository)


def correct_tags(pushed: Pushed, repository: str, tags: tuple[str, ...]) -> bool:
    """Set the tags again that another hand has moved since the promotion, or removed; tell whether there were any."""
    again = False
    for tag in tags:
        found = registry.find(f"{repository}:{tag}")
        if found is None or found.digest != pushed.digest:
            registry.set_tag(f"{repository}@{pushed.digest}", repository, tag)
            print(f"{repository}:{tag}: was {found.digest if found else 'gone'}; set again")
            again = True
    return again


def promote(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Give a digest whose smoke test allows it the dated and the moving tag; the record is written last."""
    if not arguments.image:
        raise ImageError("promote works on one image: make promote IMAGE=name [DIGEST=sha256:...]")
    row = find_row(catalog, arguments.image)
    path = Path(arguments.record) if arguments.record else RECORD
    check_writable(path)
    key = signer("release", arguments.sign)
    repository, require = f"{arguments.registry}/{row['name']}", arguments.require or demanded(row)
    pushed = candidate(catalog, row, arguments)
    known = (read_record(path) or read_record(RECORD)).get(row["name"], {})
    if known.get("digest") == pushed.digest and known.get("smoke", {}).get("require") == require:
        again = correct_tags(pushed, repository, (known["tag"], str(catalog["release"])))
        print(f"{repository}@{pushed.digest}: promoted already as {known['tag']}{'' if again else '; nothing to do'}")
        return
    manifest = check_place(pushed, row, arguments)
    made_so = check_signed(pushed, row, repository, bool(arguments.digest))
    check_labels(catalog, row, pushed.image, bool(arguments.digest))
    if arguments.smoke:
        record = told_record(Path(arguments.smoke))
        smoke = check_record(record, row, pushed, require)
        pull(pushed.image)
    else:
        record = smoke_digest(pushed, require)
        smoke = check_record(record, row, pushed, require)
    made = write_sbom(row["name"], pushed.image, BUILD)
    if not arguments.digest:  # the image that one goes back to comes from an older recipe and lock
        check_roots(pushed.image, record)
        check_system(pushed.image, made)
    if arguments.db:
        for one in check_bill(catalog, made, arguments.db):
            print(one.line())
    packages = f"packages-{packages_id(made)}"
    check_first(pushed.image, repository, str(catalog["release"]))
    if not arguments.digest:
        check_moving(repository, str(catalog["release"]))
        if reason := reason_to_stay(repository, str(catalog["release"]), made):
            print(reason)
            return
    if arguments.only_changed and is_promoted(repository, str(catalog["release"]), packages):
        print(f"{pushed.image}: the packages are those of what was promoted last; not promoted")
        return
    if arguments.only_changed and known:
        print("\n".join(package_changes(RECORD.parent / known["sbom"], made)))
    bill = path.parent / "sbom" / made.name
    bill.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, bill)
    tag = dated_tag(repository, str(catalog["release"]), pushed.digest)
    registry.set_tag(pushed.image, repository, packages)
    seal(catalog, row, pushed, repository, bill, made_so, key)
    for name in (tag, str(catalog["release"])):
        registry.set_tag(pushed.image, repository, name)
    write_entry(path, row["name"], entry(row, pushed.image, tag, manifest, smoke, bill, path))
    print(f"{repository}:{tag} is {pushed.digest}; recorded in {path}")


def lock_of(image: str, row: dict[str, Any]) -> str:
    """Return the checksum of the lock that the image was built from: after a rollback not the row's of today."""
    labels = registry.config(image).get("config", {}).get("Labels") or {}
    return str(labels.get(f"{LABEL_PREFIX}.lock-sha256") or sha256_of(lock_path(row["name"])))


def entry(
    row: dict[str, Any],
    image: str,
    tag: str,
    pushed: registry.Manifest,
    smoke: dict[str, Any],
    bill: Path,
    record: Path,
) -> dict[str, Any]:
    """Return the entry of the release record."""
    return {
        "tag": tag,
        "digest": pushed.digest,
        "lock_sha256": lock_of(image, row),
        "compressed_bytes": pushed.size,
        "layers": list(pushed.layers),
        "smoke": smoke,
        "sbom": str(bill.relative_to(record.parent)),
        "promoted": f"{datetime.now(UTC):%Y-%m-%d}",
    }
