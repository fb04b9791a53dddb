"""Push an image to a staging tag, smoke that digest, and give the same digest its release tags."""

import argparse
import hashlib
import json
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import registry
from .build import check_room, engine_folder, local_tag
from .catalog import BUILD, ImageError, chosen_rows, find_row, lock_path, sha256_of
from .record import RECORD, check_writable, read_record, write_entry
from .sbom import package_changes, write_sbom

VOLATILE_LABELS = ("org.opencontainers.image.created", "org.opencontainers.image.version")


def content_id(tag: str) -> str:
    """Return what an image consists of, as 16 hexadecimal digits: its layers and how it runs, not when it was built."""
    result = subprocess.run(["docker", "image", "inspect", tag], capture_output=True, text=True, check=False)
    if result.returncode:
        raise ImageError(f"{tag}: no such image here; build it with `make images`")
    image = json.loads(result.stdout)[0]
    config = {key: image["Config"].get(key) for key in ("Env", "Entrypoint", "Cmd", "User", "WorkingDir")}
    labels = {key: value for key, value in (image["Config"].get("Labels") or {}).items() if key not in VOLATILE_LABELS}
    text = json.dumps([image["RootFS"]["Layers"], config, labels], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def push_row(catalog: dict[str, Any], name: str, target: str, source: str) -> registry.Manifest:
    """Push the local image of a row to its staging tag, unless the registry has the same content already."""
    tag = local_tag(catalog, name, source)
    staging = f"{target}/{name}:staging-{content_id(tag)}"
    if found := registry.find(staging):
        print(f"{staging}: the same content is there already, {found.digest}")
        return found
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        archive = Path(folder) / "image.tar"
        subprocess.run(["docker", "save", "--output", str(archive), tag], check=True)
        pushed = registry.push(archive, staging)
    print(f"{staging}: pushed {pushed.digest}, {pushed.size / 1e6:.0f} MB in {len(pushed.layers)} layers")
    return pushed


def digest_file(name: str) -> Path:
    """Return the file where `make push` leaves the digest of a row, for the agents that smoke and promote it."""
    return BUILD / "digest" / name


def push(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Push the local image of each chosen row to a staging tag named after its content."""
    check_room(engine_folder())
    for row in chosen_rows(catalog, arguments.image):
        pushed = push_row(catalog, row["name"], arguments.registry, arguments.source)
        digest_file(row["name"]).parent.mkdir(parents=True, exist_ok=True)
        digest_file(row["name"]).write_text(f"{pushed.digest}\n")


def pull(reference: str) -> None:
    """Bring a pushed image into the local engine. Raises ImageError."""
    done = subprocess.run(["docker", "pull", "--quiet", reference], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{reference}: cannot pull it: {done.stderr.strip().splitlines()[-1]}")


def smoke_digest(reference: str, require: str, junit: Path | None = None) -> dict[str, Any]:
    """Run the smoke test of a pushed image; return what the record keeps of it; raise ImageError when it fails.

    junit: where its report goes, also when it fails.
    """
    pull(reference)
    mode = ["--mode", "image"] if require == "none" else ["--require", require]
    gpus = [] if require == "none" else ["--gpus", "all"]
    command = ["docker", "run", "--rm", *gpus, reference]
    script = f"/usr/local/bin/gpu-smoke {' '.join(mode)} --json /tmp/smoke.json --junit /tmp/smoke.xml; code=$?; "
    script += "cat /tmp/smoke.json /tmp/smoke.xml >&2; exit $code"
    result = subprocess.run([*command, "sh", "-c", script], capture_output=True, text=True, check=False)
    if junit:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_text(result.stderr[max(result.stderr.find("<?xml"), 0) :])
    if result.returncode:
        print(result.stdout)
        raise ImageError(
            f"{reference}: the smoke test ended with {result.returncode}; no tag was set. The report stands above; "
            f"run it again with: {' '.join([*command, 'gpu-smoke', *mode])}"
        )
    return smoke_summary(result.stderr, require)


def smoke_summary(text: str, require: str) -> dict[str, Any]:
    """Return what the record keeps of a smoke report: what was demanded, and the verdict of each layer."""
    start = text.find("{")
    try:
        report = json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else {}
    except ValueError:
        report = {}
    layers = {layer["name"]: layer["state"] for layer in report.get("layers", []) if "name" in layer}
    # A test without a GPU proves that the libraries load, and nothing about a GPU.
    return {
        "require": require,
        "verdict": report.get("verdict", "unknown"),
        "on_a_gpu": require in ("gpu", "framework", "model"),
        "layers": layers,
    }


def smoke_row(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Smoke the pushed digest of a row on this machine's GPU and keep the report for `make promote SMOKE=file`."""
    row = find_row(catalog, arguments.image)
    digest = pushed_digest(arguments)
    require = arguments.require or ("gpu" if row["framework"] == "plain" else "framework")
    report = BUILD / "smoke" / f"{row['name']}.json"
    smoke = smoke_digest(f"{arguments.registry}/{row['name']}@{digest}", require, report.with_suffix(".xml"))
    report.write_text(json.dumps({"digest": digest, "smoke": smoke}) + "\n")
    print(f"{row['name']}@{digest}: passed as far as {require}; recorded in {report}")


def pushed_digest(arguments: argparse.Namespace) -> str:
    """Return the digest that was told, else the one that `make push` left here. Raises ImageError."""
    file = digest_file(arguments.image)
    if not arguments.digest and not file.exists():
        raise ImageError(f"{arguments.image or 'no image'}: which digest? Say DIGEST=sha256:..., or `make push` first")
    return str(arguments.digest or file.read_text().strip())


def told_smoke(file: Path, digest: str) -> dict[str, Any]:
    """Return the smoke test that another machine recorded for this very digest. Raises ImageError."""
    try:
        report = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ImageError(f"{file}: cannot read the smoke report: {error}; make one with `make smoke-digest`") from error
    if report.get("digest") != digest:
        raise ImageError(f"{file}: is about {report.get('digest')}, not {digest}; no tag was set")
    smoke: dict[str, Any] = report["smoke"]
    return smoke


def dated_tag(repository: str, release: str, digest: str) -> str:
    """Return the immutable tag for today: RELEASE.DAY, with a number behind it when that day has another digest."""
    day = f"{release}.{datetime.now(UTC):%d}"
    for number in range(1, 100):
        tag = day if number == 1 else f"{day}.{number}"
        found = registry.find(f"{repository}:{tag}")
        if found is None or found.digest == digest:
            return tag
    raise ImageError(f"{repository}: a hundred promotions on {day}; look at what runs this")


def promote(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Smoke a digest and give it the dated and the moving tag; the record is written last."""
    if not arguments.image:
        raise ImageError("promote works on one image: make promote IMAGE=name [DIGEST=sha256:...]")
    row = find_row(catalog, arguments.image)
    path = Path(arguments.record) if arguments.record else RECORD
    check_writable(path)
    repository = f"{arguments.registry}/{row['name']}"
    digest = arguments.digest or push_row(catalog, row["name"], arguments.registry, arguments.source).digest
    known = (read_record(path) or read_record(RECORD)).get(row["name"], {})
    if known.get("digest") == digest and known.get("smoke", {}).get("require") == arguments.require:
        print(f"{repository}@{digest}: promoted already as {known['tag']}; nothing to do")
        return
    reference = f"{repository}@{digest}"
    pushed = registry.look_up(reference)
    if arguments.smoke:
        smoke = told_smoke(Path(arguments.smoke), digest)
        pull(reference)
    else:
        smoke = smoke_digest(reference, arguments.require)
    made = write_sbom(row["name"], reference, BUILD)
    if arguments.only_changed and known and not (changes := package_changes(RECORD.parent / known["sbom"], made)):
        print(f"{reference}: the packages are those of {known['tag']}; not promoted")
        return
    if arguments.only_changed and known:
        print("\n".join(changes))
    bill = path.parent / "sbom" / made.name
    bill.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, bill)
    tag = dated_tag(repository, str(catalog["release"]), digest)
    for name in (tag, str(catalog["release"])):
        registry.set_tag(repository, digest, name)
    write_entry(path, row["name"], entry(row, tag, pushed, smoke, bill, path))
    print(f"{repository}:{tag} is {digest}; recorded in {path}")


def entry(
    row: dict[str, Any], tag: str, pushed: registry.Manifest, smoke: dict[str, Any], bill: Path, record: Path
) -> dict[str, Any]:
    """Return the entry of the release record."""
    return {
        "tag": tag,
        "digest": pushed.digest,
        "lock_sha256": sha256_of(lock_path(row["name"])),
        "compressed_bytes": pushed.size,
        "layers": list(pushed.layers),
        "smoke": smoke,
        "sbom": str(bill.relative_to(record.parent)),
        "promoted": f"{datetime.now(UTC):%Y-%m-%d}",
    }
