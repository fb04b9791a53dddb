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
from .artifacts import Part, attach, digest_of
from .catalog import BUILD, ImageError, find_row
from .keyless import Keyless
from .lists import companions, entries_of, list_of, push_list
from .plan import LABEL_PREFIX, OCI_PREFIX, labels, platform_of
from .platforms import asked, on_platform, suffix
from .provenance import SLSA, SPDX, attest, check_provenance, predicate
from .push import Pushed, push_signed, pushed_content, read_pushed, staging_of, told_or_pushed
from .record import RECORD, check_writable, read_record, write_entry
from .released import entry, lock_of, with_platforms
from .roots import check_roots
from .sbom import package_changes, packages_id, write_sbom
from .signing import check_image, public_key, sign_image, signer
from .smoke import check_record, demanded, pull, smoke_digest, told_record

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
    return last is not None and same is not None and same.digest in (last.digest, *last.images.values())


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
    if manifest.images and not (arguments.digest and repository == repositories[1]):
        raise ImageError(
            f"{pushed.image}: is a list of images for several platforms, not one image; no tag was set: "
            "give the digest of one image"
        )
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
    wrong += [f"it is for {platform}, not {platform_of(row)}"] if platform != platform_of(row) else []
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
    key: EllipticCurvePrivateKey | Keyless | None,
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
    """Check what is released, or a digest, against base-images/keys/release.pub or .yml. Raises ImageError."""
    row, public = find_row(catalog, arguments.image), public_key("release")
    digest = arguments.digest or read_record(RECORD).get(row["name"], {}).get("digest")
    if public is None or not digest:
        lacks = (
            "no base-images/keys/release.pub or release.yml"
            if public is None
            else f"no release of {row['name']}; give DIGEST"
        )
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
    """Give a digest whose smoke test allows it the dated and the moving tag; the record is written last.

    Of a row for several platforms, the tags lead to the list of those that are released from the same lock.
    """
    if not arguments.image:
        raise ImageError("promote works on one image: make promote IMAGE=name [DIGEST=sha256:...]")
    row = on_platform(find_row(catalog, arguments.image), asked(arguments))
    path = Path(arguments.record) if arguments.record else RECORD
    check_writable(path)
    key = signer("release", arguments.sign)
    repository, require = f"{arguments.registry}/{row['name']}", arguments.require or demanded(row)
    pushed = candidate(catalog, row, arguments)
    known = (read_record(path) or read_record(RECORD)).get(row["name"], {})
    mine = entries_of(known).get(row["platform"], {})
    if mine.get("digest") == pushed.digest and mine.get("smoke", {}).get("require") == require:
        released = replace(pushed, image=f"{repository}@{known['digest']}")
        again = correct_tags(released, repository, (known["tag"], str(catalog["release"])))
        print(f"{repository}@{pushed.digest}: promoted already as {known['tag']}{'' if again else '; nothing to do'}")
        return
    manifest = check_place(pushed, row, arguments)
    if manifest.images:
        roll_back(catalog, row, pushed, manifest, require, path)
        return
    made_so = check_signed(pushed, row, repository, bool(arguments.digest))
    check_labels(catalog, row, pushed.image, bool(arguments.digest))
    others = companions(known, row, lock_of(pushed.image, row))
    if arguments.smoke:
        record = told_record(Path(arguments.smoke))
        smoke = check_record(record, row, pushed, require)
        pull(pushed.image)
    else:
        record = smoke_digest(pushed, require)
        smoke = check_record(record, row, pushed, require)
    made = write_sbom(f"{row['name']}{suffix(row['platform'])}", pushed.image, BUILD)
    if not arguments.digest:  # the image that one goes back to comes from an older recipe and lock
        check_roots(pushed.image, record)
    packages = f"packages{suffix(row['platform'])}-{packages_id(made)}"
    check_first(pushed.image, repository, str(catalog["release"]))
    if not arguments.digest:
        check_moving(repository, str(catalog["release"]))
    if arguments.only_changed and is_promoted(repository, str(catalog["release"]), packages):
        print(f"{pushed.image}: the packages are those of what was promoted last; not promoted")
        return
    if arguments.only_changed and mine:
        print("\n".join(package_changes(RECORD.parent / mine["sbom"], made)))
    bill = path.parent / "sbom" / made.name
    bill.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, bill)
    registry.set_tag(pushed.image, repository, packages)
    seal(catalog, row, pushed, repository, bill, made_so, key)
    tag, digest = set_release(catalog, row, pushed, repository, others, key)
    told = entry(row, pushed.image, tag, manifest, smoke, bill, path)
    write_entry(path, row["name"], with_platforms(told, row["platform"], others, tag, digest))
    print(f"{repository}:{tag} is {digest}; recorded in {path}")


def set_release(
    catalog: dict[str, Any],
    row: dict[str, Any],
    pushed: Pushed,
    repository: str,
    others: dict[str, dict[str, Any]],
    key: EllipticCurvePrivateKey | Keyless | None,
) -> tuple[str, str]:
    """Set dated and moving tag to an image, or to its list with those of other platforms; return tag, digest."""
    source, release = pushed.image, str(catalog["release"])
    if others:
        images = {name: str(one["digest"]) for name, one in others.items()} | {row["platform"]: pushed.digest}
        content = list_of(repository, images)
        source = f"{repository}@{digest_of(content)}"
        tag = dated_tag(repository, release, digest_of(content))
        push_list(content, f"{repository}:{tag}")
        if key:
            sign_image(repository, digest_of(content), key)
    digest = source.rpartition("@")[2]
    tag = dated_tag(repository, release, digest)
    for name in (tag, release):
        registry.set_tag(source, repository, name)
    return tag, digest


def roll_back(
    catalog: dict[str, Any], row: dict[str, Any], pushed: Pushed, found: registry.Manifest, require: str, path: Path
) -> None:
    """Set the tags to a list that was released before, when the image of this platform in it passes its smoke test."""
    repository, digest = pushed.image.rpartition("@")[0], pushed.digest
    if row["platform"] not in found.images:
        raise ImageError(f"{pushed.image}: holds no image for {row['platform']}; no tag was set")
    if public := public_key("release"):
        check_image(repository, digest, public)
    platforms: dict[str, dict[str, Any]] = {}
    for name, one in found.images.items():
        image, own = replace(pushed, image=f"{repository}@{one}"), on_platform(row, name)
        check_signed(image, own, repository, older=True)
        check_labels(catalog, own, image.image, older=True)
        platforms[name] = {"digest": one, "lock_sha256": lock_of(image.image, own)}
    image = replace(pushed, image=f"{repository}@{found.images[row['platform']]}")
    smoke = check_record(smoke_digest(image, require), row, image, require)
    made = write_sbom(f"{row['name']}{suffix(row['platform'])}", image.image, BUILD)
    bill = path.parent / "sbom" / made.name
    bill.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, bill)
    tag = dated_tag(repository, str(catalog["release"]), digest)
    for name in (tag, str(catalog["release"])):
        registry.set_tag(pushed.image, repository, name)
    told = entry(row, image.image, tag, registry.look_up(image.image), smoke, bill, path)
    others = {name: one for name, one in platforms.items() if name != row["platform"]}
    write_entry(path, row["name"], with_platforms(told, row["platform"], others, tag, digest))
    print(f"{repository}:{tag} is {digest}; recorded in {path}")
