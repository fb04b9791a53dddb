"""Stands in for a Docker Engine: images are real OCI layouts, the registry is real, containers are processes here.

What is real: the image's bytes (the project's src/ as one layer, a config, a manifest), its digest, pushes and pulls
over HTTP with the login that was given (by skopeo), and the commands, which run with the packages of this Python. What
is not: base images, isolation, limits. A pushed image is run from the files that were pulled, not from the checkout.
A folder holds one engine, so that two agents share nothing but the registry; `nvidiactl` beside it is the GPU.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

HOME = Path(os.environ["STANDIN_ENGINE"])
GPU = (HOME / "nvidiactl").exists()
RUNTIME = Path(__file__).resolve().parents[4] / "runtime" / "src"  # as if base-install had installed it
OWN_LOGIN = "agent:agent-password"  # the agent may pull; it holds no login that a pipeline's push could use


def main(arguments: list[str]) -> int:
    """Do one command of `docker`, as far as the scripts of children use it."""
    match arguments:
        case ["info", "--format", "{{.DockerRootDir}}"]:
            print("/on-another-machine")
        case ["info", "--format", *_]:
            print('{"nvidia":{},"runc":{}}' if GPU else '{"runc":{}}')
        case ["info", *_]:
            print("a stand-in")
        case ["image", "inspect", name]:
            return inspect(name)
        case ["buildx", "bake", "--file", file, _, "--load", target]:
            tag = json.loads(Path(file).read_text())["target"][target]["tags"][0]
            return build_base(tag, Path("base-images") / target)
        case ["builder", "prune", *_]:
            pass
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
        case ["run", *options]:
            return run(options)
        case ["exec", "--interactive", *options]:
            return execute(options)
        case ["stop", "--time", seconds, container]:
            stop(container, float(seconds))
        case ["inspect", "--format", "{{.State.ExitCode}}", container]:
            print(_exit_code(container))
        case ["logs", container]:
            print((HOME / container / "log").read_text())
        case ["rm", "--force", container]:
            stop(container, 0)
            shutil.rmtree(HOME / container)
        case _:
            return _fail(f"the stand-in does not know: docker {' '.join(arguments)}")
    return 0


def _fail(text: str) -> int:
    print(f"Error: {text}", file=sys.stderr)
    return 1


def image(name: str) -> Path:
    """Return the folder of an image: oci/ and the unpacked app/."""
    return HOME / "images" / hashlib.sha256(name.encode()).hexdigest()[:16]


def inspect(name: str) -> int:
    """Say what an image consists of; a base image of a child is always there, and never looked into."""
    if not image(name).exists():
        return 0 if "-cu1" in name and name.count("@") == 0 else _fail(f"No such image: {name}")
    found = _config(image(name))
    print(json.dumps([{"RootFS": {"Layers": found["rootfs"]["diff_ids"]}, "Config": found["config"]}]))
    return 0


def build(options: list[str]) -> None:
    """Make an image of the src/ of the current folder; the same files give the same digest."""
    base = re.search(r"^ARG BASE_IMAGE=\S*/([a-z0-9-]+):", Path("Dockerfile").read_text(), re.M)
    labels = dict(options[at + 1].split("=", 1) for at, word in enumerate(options) if word == "--label")
    make(options[options.index("--tag") + 1], {"app/src": Path("src")}, labels | {"row": base[1] if base else ""})


def build_base(name: str, row: Path) -> int:
    """Make an image of a base image's lock and a list of Debian packages; `broken-ROW` beside the engine fails it."""
    if (HOME / f"broken-{row.name}").exists():
        return _fail(f"the build of {row.name} failed")
    system = HOME / f"system-{row.name}"
    shutil.rmtree(system, ignore_errors=True)
    system.mkdir()
    version = (HOME / "openssl").read_text() if (HOME / "openssl").exists() else "3.5.1-1"
    package = {"Package": "openssl", "Status": "install ok installed", "Architecture": "amd64", "Version": version}
    (system / "status").write_text("".join(f"{key}: {value}\n" for key, value in package.items()) + "\n")
    (system / "os-release").write_text('ID=debian\nVERSION_ID="13"\n')
    files = {"var/lib/dpkg/status": system / "status", "etc/os-release": system / "os-release", "app/lock": row}
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make(name, files, {"row": row.name})
    return 0


def make(name: str, files: dict[str, Path], labels: dict[str, str]) -> None:
    """Make an image of one layer with these files: path in the image -> path here. Label row: what it stands on."""
    folder = image(name)
    if folder.exists():
        return
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


def _manifest(folder: Path) -> dict[str, Any]:
    [entry] = json.loads((folder / "oci" / "index.json").read_text())["manifests"]
    found: dict[str, Any] = json.loads((folder / "oci" / "blobs" / entry["digest"].replace(":", "/")).read_text())
    return found


def _config(folder: Path) -> dict[str, Any]:
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
        return _fail(done.stderr.strip())
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
            return _fail(done.stderr.strip())
        unpack(folder)
    print(name)
    return 0


FLAGS = ("--rm", "--detach", "--ipc=host", "-it")


def run(options: list[str]) -> int:
    """Run a command in a container: in the mounted checkout, or in the files of the pulled image."""
    environment, mount, gpu, detach = dict(os.environ), "", False, False
    while options[0].startswith("-"):
        option = options.pop(0)
        detach = detach or option == "--detach"
        if option in FLAGS:
            continue
        value = options.pop(0)
        gpu = gpu or option in ("--gpus", "--device")
        if option == "--volume":
            mount = value
        if option == "--env" and "=" in value:
            environment.__setitem__(*value.split("=", 1))
    name, *command = options
    if not image(name).exists():
        return _fail(f"Unable to find image {name}")
    folder = Path(tempfile.mkdtemp(prefix="container-", dir=HOME))
    source, _, target = mount.partition(":")
    work = Path(source) if target == "/app" else folder / "app"
    if target != "/app":
        shutil.copytree(image(name) / "app", work)
        if mount:
            (work / target.removeprefix("/app/")).symlink_to(source)
    # A container has a /tmp of its own, and the base image's programs have their places.
    command = [word.replace("/tmp/", f"{folder}/").replace("/usr/local/bin/gpu-smoke", "gpu-smoke") for word in command]
    packages = [str(HOME / "inside"), str(Path(sys.executable).parent)]
    environment |= {
        "PYTHONPATH": f"{work / 'src'}{os.pathsep}{RUNTIME}",
        "PATH": ":".join([*packages, environment["PATH"]]),
        "STANDIN_GPU": str(HOME) if gpu and GPU else "",
        "STANDIN_ROW": _config(image(name))["config"]["Labels"]["row"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # those of this repository
    }
    if gpu and GPU:  # a stand-in of a GPU computes on the CPU, and no test can compare it with one
        environment |= {"DEVICE": "cpu", "SMOKE_REQUIRE": "none"}
        command = ["cpu" if word == "cuda" else word for word in command]
    if detach:
        print(start(folder, work, environment))
        return 0
    try:
        return subprocess.run(command, cwd=work, env=environment, check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, work: Path, environment: dict[str, str]) -> str:
    """Start the service of an image in a port of its own, as in a network of its own; return the container."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        environment["PORT"] = str(probe.getsockname()[1])
    package = next((work / "src").glob("*/model.py")).parent.name
    container = HOME / f"c{uuid.uuid4().hex[:12]}"
    folder.rename(container)
    work = container / "app"
    environment.pop("JENKINS_NODE_COOKIE", None)
    environment["PYTHONPATH"] = f"{work / 'src'}{os.pathsep}{RUNTIME}"
    (container / "env.json").write_text(json.dumps(environment))
    script = f'"{sys.executable}" -m gpu_repo_runtime.serving {package} & echo $! >../pid; wait $!; echo $? >../exit'
    with (container / "log").open("w") as log:
        command = ["sh", "-c", script]
        subprocess.Popen(command, cwd=work, env=environment, stdout=log, stderr=log, start_new_session=True)
    return container.name


def execute(options: list[str]) -> int:
    """Run a command with this one's input in a running container."""
    passed = {}
    while options[0].startswith("-"):
        option, value, options = options[0], options[1], options[2:]
        assert option == "--env", option
        passed |= {value: os.environ[value]} if value in os.environ else {}
    container, *command = options
    if (HOME / container / "exit").exists():
        return _fail(f"container {container} is not running")
    environment = json.loads((HOME / container / "env.json").read_text()) | passed
    return subprocess.run(command, cwd=HOME / container / "app", env=environment, check=False).returncode


def _exit_code(container: str) -> str:
    file = HOME / container / "exit"
    return file.read_text().strip() if file.exists() else "0"


def stop(container: str, seconds: float) -> None:
    """Ask the process of a container to end; end it after `seconds`."""
    folder = HOME / container
    while not (folder / "pid").exists():
        time.sleep(0.02)
    end(folder, signal.SIGTERM if seconds else signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while not (folder / "exit").exists():
        if time.monotonic() > deadline:
            end(folder, signal.SIGKILL)
        time.sleep(0.05)


def end(folder: Path, number: signal.Signals) -> None:
    """Send a signal to the process of a container, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
