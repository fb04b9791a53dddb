"""Push an image to a staging tag, smoke that digest, and give the same digest its release tags."""

import argparse
import hashlib
import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import registry
from .build import check_room, engine_folder, local_tag
from .catalog import BUILD, ImageError, chosen_rows, find_row, lock_path, sha256_of
from .record import RECORD, check_writable, read_record, write_entry
from .sbom import write_sbom

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
        archive = f"{folder}/image.tar"
        subprocess.run(["docker", "save", "--output", archive, tag], check=True)
        os.environ["TMPDIR"] = folder  # skopeo unpacks the archive beside it, not in a small /tmp
        pushed = registry.push(archive, staging)
    print(f"{staging}: pushed {pushed.digest}, {pushed.size / 1e6:.0f} MB in {len(pushed.layers)} layers")
    return pushed


def push(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Push the local image of each chosen row to a staging tag named after its content."""
    check_room(engine_folder())
    for row in chosen_rows(catalog, arguments.image):
        push_row(catalog, row["name"], arguments.registry, arguments.source)


def smoke_digest(reference: str, require: str) -> dict[str, Any]:
    """Run the smoke test of a pushed image; return what the record keeps of it; raise ImageError when it fails."""
    pull = subprocess.run(["docker", "pull", "--quiet", reference], capture_output=True, text=True, check=False)
    if pull.returncode:
        raise ImageError(f"{reference}: cannot pull it: {pull.stderr.strip().splitlines()[-1]}")
    mode = ["--mode", "image"] if require == "none" else ["--require", require]
    gpus = [] if require == "none" else ["--gpus", "all"]
    command = ["docker", "run", "--rm", *gpus, reference]
    script = f"gpu-smoke {' '.join(mode)} --json /tmp/smoke.json; code=$?; cat /tmp/smoke.json >&2; exit $code"
    result = subprocess.run([*command, "sh", "-c", script], capture_output=True, text=True, check=False)
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
        report = json.loads(text[start:]) if start >= 0 else {}
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
    known = read_record(path).get(row["name"], {})
    if known.get("digest") == digest and known.get("smoke", {}).get("require") == arguments.require:
        print(f"{repository}@{digest}: promoted already as {known['tag']}; nothing to do")
        return
    pushed = registry.look_up(f"{repository}@{digest}")
    smoke = smoke_digest(f"{repository}@{digest}", arguments.require)
    bill = write_sbom(row["name"], f"{repository}@{digest}", path.parent)
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
