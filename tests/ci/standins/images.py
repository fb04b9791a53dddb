"""Images of the stand-in for a Docker Engine: built, pushed and pulled for real (by skopeo), and run as processes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine import GPU, HOME, fail, file_of

OWN_LOGIN = "agent:agent-password"  # the agent may pull; it holds no login that a pipeline's push could use
RUNTIME = Path(__file__).resolve().parents[3] / "runtime" / "src"  # as if base-install had installed it
FLAGS = ("--rm", "--ipc=host", "-it")


def main(arguments: list[str]) -> int:
    """Do one command of `docker`, as far as the scripts of children and of the parent use it."""
    match arguments:
        case ["run", *options]:
            return run(options)
        case ["build", *options]:
            build(options)
        case ["buildx", "build", *options]:
            [name] = [one.removeprefix("--tag=") for one in options if one.startswith("--tag=")]
            labels = [one.removeprefix("--label=").split("=", 1) for one in options if one.startswith("--label=")]
            return build_base(name, Path("base-images", name.rpartition("/")[2].partition(":")[0]), dict(labels))
        case ["image", "inspect", name]:
            found = config(name)
            print(json.dumps([{"RootFS": {"Layers": found["rootfs"]["diff_ids"]}, "Config": found["config"]}]))
        case ["save", "--output", file, name]:
            shutil.copy(file_of(name), file)
        case ["tag", name, other]:
            shutil.copy(file_of(name), file_of(other))
        case ["login", "--username", user, "--password-stdin", host]:
            return skopeo("login", "--authfile", login(), "--tls-verify=false", f"-u={user}", "--password-stdin", host)
        case ["push", name]:
            return push(name)
        case ["pull", "--quiet", name]:
            return pull(name)
        case _:
            return fail(f"the stand-in does not know: docker {' '.join(arguments)}")
    return 0


def skopeo(*words: str) -> int:
    return subprocess.run(["skopeo", *words], check=False).returncode


def copy(*words: str) -> int:
    return skopeo("copy", "--quiet", *words)


def login() -> str:
    """Return the file of the logins, which is where DOCKER_CONFIG says."""
    return str(Path(os.environ.get("DOCKER_CONFIG", "/nowhere"), "config.json"))


def push(name: str) -> int:
    """Push an image with the login of DOCKER_CONFIG."""
    known = f"--authfile={login()}" if Path(login()).exists() else "--dest-no-creds"
    with tempfile.NamedTemporaryFile("r") as digest:
        options = ("--dest-tls-verify=false", "--digestfile", digest.name, known)
        if code := copy(*options, f"docker-archive:{file_of(name)}", f"docker://{name}"):
            return code
        print(f"{name.rsplit(':', 1)[1]}: digest: {digest.read()} size: 1")
    return 0


def pull(name: str) -> int:
    """Pull an image with the agent's own login."""
    if Path(file_of(name)).exists():
        return 0
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        options = ("--src-tls-verify=false", f"--src-creds={OWN_LOGIN}", "--dest-decompress")
        if code := copy(*options, f"docker://{name}", f"dir:{folder}"):
            return code
        told = json.loads(Path(folder, "manifest.json").read_text())
        config, *layers = [one["digest"].partition(":")[2] for one in (told["config"], *told["layers"])]
        pack(name, Path(folder), config, layers)
    return 0


def pack(name: str, folder: Path, config: str, layers: list[str]) -> None:
    """Write an image whose parts are these files of a folder, as `docker save` does."""
    (folder / "manifest.json").write_text(json.dumps([{"Config": config, "RepoTags": [], "Layers": layers}]))
    with tarfile.open(folder / "image", "w") as tar:
        for part in ("manifest.json", config, *layers):
            tar.add(folder / part, part)
    (folder / "image").rename(file_of(name))  # jobs that run side by side build and pull the same image


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
    """Make an image of a row's files and two packages of Debian; `broken-ROW` beside the engine fails it."""
    if Path(HOME, f"broken-{row.name}").exists():
        return fail(f"the build of {row.name} failed")
    with tempfile.TemporaryDirectory() as folder:
        status, release = Path(folder, "status"), Path(folder, "os-release")
        packages = [f"Package: {one}\nStatus: install ok installed\nArchitecture: amd64\n" for one in ("bash", "grep")]
        status.write_text("\n".join(f"{package}Version: 5.2.37-2\n" for package in packages))
        release.write_text('ID=debian\nVERSION_ID="13"\n')
        files = {"var/lib/dpkg/status": status, "etc/os-release": release, "app/lock": row}
        make(name, files, labels | {"row": row.name})
    return 0


def make(name: str, files: dict[str, Path], labels: dict[str, str]) -> None:
    """Make an image of one layer with these files: path in the image -> path here. Label row: what it stands on."""

    def reproducible(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 1000, 1000, "", ""
        return None if "__pycache__" in member.name else member

    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        layer = Path(folder, "layer.tar")
        with tarfile.open(layer, "w") as tar:
            for target, source in files.items():
                tar.add(source, target, filter=reproducible)
        layers = [f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"]
        run_with = {"WorkingDir": "/app", "Labels": labels}
        made = {"architecture": "amd64", "os": "linux", "config": run_with}
        made["rootfs"] = {"type": "layers", "diff_ids": layers}
        Path(folder, "config.json").write_text(json.dumps(made))
        pack(name, Path(folder), "config.json", ["layer.tar"])


def config(name: str) -> dict[str, Any]:
    """Return the config of an image."""
    with tarfile.open(file_of(name)) as tar:
        [listed] = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        found: dict[str, Any] = json.load(tar.extractfile(listed["Config"]))  # type: ignore[arg-type]
    return found


def unpack(name: str, folder: Path) -> None:
    """Unpack the layers of an image."""
    with tarfile.open(file_of(name)) as tar:
        [listed] = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        for layer in listed["Layers"]:
            with tarfile.open(fileobj=tar.extractfile(layer)) as files:
                files.extractall(folder, filter="data")


def run(options: list[str]) -> int:
    """Run a command in a container: in the mounted checkout, or in the files of the pulled image."""
    environment, mount, weights, gpu = dict(os.environ), "", "", False
    while options[0].startswith("-"):
        option = options.pop(0)
        if option in FLAGS:
            continue
        value = options.pop(0)
        gpu = gpu or (option in ("--gpus", "--device") and GPU)
        if option == "--volume" and value.endswith(":/weights:ro"):
            weights = value.removesuffix(":/weights:ro")
        elif option == "--volume":
            mount = value
        if option == "--env" and "=" in value:
            environment.__setitem__(*value.split("=", 1))
    name, *command = options
    if not Path(file_of(name)).exists():
        return fail(f"Unable to find image {name}")
    with tempfile.TemporaryDirectory(prefix="container-", dir=HOME) as folder:
        source, _, target = mount.partition(":")
        work = Path(source) if target == "/app" else Path(folder, "app")
        if target != "/app":
            unpack(name, Path(folder))
            if mount:
                (work / target.removeprefix("/app/")).symlink_to(source)
        # A container has a /tmp of its own, and the base image's programs have their places.
        places = {"/tmp/": f"{folder}/", "/usr/local/bin/gpu-smoke": "gpu-smoke"}
        for place, here in places.items():
            command = [word.replace(place, here) for word in command]
        environment |= {"WEIGHTS": weights} if weights else {}
        environment |= {
            "PYTHONPATH": f"{work / 'src'}{os.pathsep}{RUNTIME}",
            "PATH": os.pathsep.join([f"{HOME}/inside", str(Path(sys.executable).parent), environment["PATH"]]),
            "STANDIN_GPU": HOME if gpu else "",
            "STANDIN_ROW": config(name)["config"]["Labels"]["row"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # those of this repository
        }
        if gpu:  # a stand-in of a GPU computes on the CPU, and no test can compare it with one
            environment |= {"DEVICE": "cpu", "SMOKE_REQUIRE": "none"}
            command = ["cpu" if word == "cuda" else word for word in command]
        return subprocess.run(command, cwd=work, env=environment, check=False).returncode
