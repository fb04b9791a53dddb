"""Images of the stand-in for a Docker Engine: OCI layouts, built, saved, pushed and pulled for real (by skopeo)."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import home
from home import fail, folder_of

HOME = Path(home.HOME)

OWN_LOGIN = "agent:agent-password"  # the agent may pull; it holds no login that a pipeline's push could use


def image(name: str) -> Path:
    """Return the folder of an image: oci/ and the unpacked app/."""
    return Path(folder_of(name))


def main(arguments: list[str]) -> int:
    """Do one command of `docker` that is about images."""
    match arguments:
        case ["image", "inspect", name]:
            found = config(image(name))
            print(json.dumps([{"RootFS": {"Layers": found["rootfs"]["diff_ids"]}, "Config": found["config"]}]))
        case ["buildx", "version"]:
            return 0
        case ["buildx", "build", *options]:
            told = {name: value for name, _, value in (one.partition("=") for one in options) if name == "--tag"}
            own = dict(one.removeprefix("--label=").split("=", 1) for one in options if one.startswith("--label="))
            row = told["--tag"].rpartition("/")[2].partition(":")[0]
            return build_base(told["--tag"], Path("base-images") / row, own)
        case ["save", "--output", file, name]:
            return save(image(name), Path(file))
        case ["build", *options]:
            with (HOME / "lock").open("w") as lock:  # stages that run side by side build the same image
                fcntl.flock(lock, fcntl.LOCK_EX)
                build(options)
        case ["login", "--username", user, "--password-stdin", host]:
            return login(user, host)
        case ["tag", name, other]:
            shutil.copytree(image(name), image(other), dirs_exist_ok=True)
        case ["push", name]:
            return push(name)
        case ["pull", "--quiet", name]:
            return pull(name)
        case _:
            return fail(f"the stand-in does not know: docker {' '.join(arguments)}")
    return 0


def build(options: list[str]) -> None:
    """Make an image of the src/ of the current folder and of weights; the same files give the same digest."""
    base = re.search(r"^ARG BASE_IMAGE=\S*/([a-z0-9-]+):", Path("Dockerfile").read_text(), re.M)
    labels = dict(options[at + 1].split("=", 1) for at, word in enumerate(options) if word == "--label")
    files = {"app/src": Path("src")}
    for name, value in pairwise(options):
        if name == "--build-context":
            files |= {"app/weights": Path(value.removeprefix("weights="))}
    make(options[options.index("--tag") + 1], files, labels | {"row": base[1] if base else ""})


def build_base(name: str, row: Path, labels: dict[str, str]) -> int:
    """Make an image of a lock and two packages of Debian; beside the engine, `broken-ROW` fails it and `openssl`
    holds another version.
    """
    if (HOME / f"broken-{row.name}").exists():
        return fail(f"the build of {row.name} failed")
    system = HOME / f"system-{row.name}"
    shutil.rmtree(system, ignore_errors=True)
    system.mkdir()
    newer = HOME / "openssl"
    versions = {"bash": "5.2.37-2", "openssl": newer.read_text() if newer.exists() else "3.5.4-1~deb13u1"}
    own = {"Status": "install ok installed", "Architecture": "amd64"}
    packages = [{"Package": name, "Version": version} | own for name, version in versions.items()]
    text = "\n".join("".join(f"{key}: {value}\n" for key, value in one.items()) for one in packages)
    (system / "status").write_text(text)
    (system / "os-release").write_text('ID=debian\nVERSION_ID="13"\n')
    files = {"var/lib/dpkg/status": system / "status", "etc/os-release": system / "os-release", "app/lock": row}
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make(name, files, labels | {"row": row.name})
    return 0


def make(name: str, files: dict[str, Path], labels: dict[str, str]) -> None:
    """Make an image of one layer with these files: path in the image -> path here. Label row: what it stands on."""
    folder = image(name)
    if folder.exists() and _is_of(folder, labels):
        return
    shutil.rmtree(folder, ignore_errors=True)
    blobs = folder / "oci" / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 1000, 1000, "", ""
        return None if "__pycache__" in member.name else member

    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for target, source in files.items():
                tar.add(source, target, filter=plain)
        file.seek(0)
        content = file.read()
    packed = gzip.compress(content, mtime=0)  # as it is pushed: a registry's digest is of packed layers
    run_with = {"WorkingDir": "/app", "Labels": labels}
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]}
    config = {"architecture": "amd64", "os": "linux", "config": run_with, "rootfs": rootfs}
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", **blob(json.dumps(config).encode())},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar+gzip", **blob(packed)}],
    }
    index = {"mediaType": manifest["mediaType"], **blob(json.dumps(manifest).encode())}
    (folder / "oci" / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    (folder / "oci" / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    unpack(folder)


def _is_of(folder: Path, labels: dict[str, str]) -> bool:
    """Tell whether an image is of the same commit, so that Docker would find all of it in its cache."""
    dirty = any(label.endswith("-dirty") for label in labels.values())
    return not dirty and bool(config(folder)["config"]["Labels"] == labels)


def _manifest(folder: Path) -> dict[str, Any]:
    [entry] = json.loads((folder / "oci" / "index.json").read_text())["manifests"]
    found: dict[str, Any] = json.loads((folder / "oci" / "blobs" / entry["digest"].replace(":", "/")).read_text())
    return found


def config(folder: Path) -> dict[str, Any]:
    digest = _manifest(folder)["config"]["digest"]
    found: dict[str, Any] = json.loads((folder / "oci" / "blobs" / digest.replace(":", "/")).read_text())
    return found


def unpack(folder: Path) -> None:
    """Unpack the one layer of an image into app/."""
    layer = _manifest(folder)["layers"][0]["digest"]
    file = folder / "oci" / "blobs" / layer.replace(":", "/")
    if file.read_bytes()[:2] != b"\x1f\x8b":  # a base image, pushed with zstd: nothing of it is run here
        (folder / "app").mkdir()
        return
    with tarfile.open(file) as tar:
        tar.extractall(folder, filter="data")


def save(folder: Path, archive: Path) -> int:
    """Write an image as `docker save` does: its config and its unpacked layers."""
    with tempfile.TemporaryDirectory() as unpacked:
        command = ["skopeo", "copy", "--quiet", "--dest-decompress", f"oci:{folder}/oci", f"dir:{unpacked}"]
        if code := subprocess.run(command, check=False).returncode:
            return code
        manifest = json.loads(Path(unpacked, "manifest.json").read_text())
        config, layers = manifest["config"]["digest"], [layer["digest"] for layer in manifest["layers"]]
        names = {digest: digest.removeprefix("sha256:") for digest in (config, *layers)}
        files = {names[config]: f"{names[config]}.json"} | {
            names[layer]: f"{names[layer]}/layer.tar" for layer in layers
        }
        listed = [{"Config": files[names[config]], "RepoTags": [], "Layers": [files[names[layer]] for layer in layers]}]
        Path(unpacked, "listed").write_text(json.dumps(listed))
        with tarfile.open(archive, "w") as tar:
            for source, target in (files | {"listed": "manifest.json"}).items():
                tar.add(Path(unpacked, source), target)
    return 0


def login(user: str, host: str) -> int:
    """Log in at the registry for real; the login goes where DOCKER_CONFIG says."""
    file = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker")) / "config.json"
    command = ["skopeo", "login", "--authfile", str(file), "--tls-verify=false", "--username", user]
    return subprocess.run([*command, "--password-stdin", host], check=False).returncode


def push(name: str) -> int:
    """Push an image with the login of DOCKER_CONFIG."""
    config = Path(os.environ.get("DOCKER_CONFIG", "/nowhere")) / "config.json"
    command = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false"]
    command += ["--authfile", str(config)] if config.exists() else ["--dest-no-creds"]
    done = subprocess.run([*command, f"oci:{image(name)}/oci", f"docker://{name}"], capture_output=True, text=True)
    if done.returncode:
        return fail(done.stderr.strip())
    [entry] = json.loads((image(name) / "oci" / "index.json").read_text())["manifests"]
    print(f"{name.rsplit(':', 1)[1]}: digest: {entry['digest']} size: {entry['size']}")
    return 0


def pull(name: str) -> int:
    """Pull an image with the agent's own login."""
    folder = image(name)
    if not folder.exists():
        folder.mkdir(parents=True)
        command = ["skopeo", "copy", "--quiet", "--src-tls-verify=false", "--src-creds", OWN_LOGIN]
        done = subprocess.run([*command, f"docker://{name}", f"oci:{folder}/oci"], capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(folder)
            return fail(done.stderr.strip())
        unpack(folder)
    print(name)
    return 0
