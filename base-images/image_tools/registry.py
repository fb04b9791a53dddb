"""Talk to an image registry through skopeo: push, look up, copy a digest to a tag."""

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .catalog import ImageError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
LEVEL = 20  # the best that skopeo's zstd has: pushed once, pulled often


@dataclass(frozen=True)
class Manifest:
    """What a registry holds under a name: digest (sha256:...) and compressed bytes per layer."""

    digest: str
    layers: tuple[int, ...]

    @property
    def size(self) -> int:
        """Compressed bytes of all layers: what a node that has none of them pulls."""
        return sum(self.layers)


def skopeo(action: str, *arguments: str, problem: str) -> str:
    """Run an action of skopeo and return what it prints; raise ImageError that starts with `problem`."""
    if not shutil.which("skopeo"):
        raise ImageError(f"{problem}: skopeo is not installed (Debian has it: apt-get install skopeo)")
    command = ["skopeo", action, "--retry-times=3", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{problem}: {(done.stderr.splitlines() or ['skopeo gave no reason'])[-1][:500]}")
    return done.stdout


def is_loopback(reference: str) -> bool:
    """Tell whether an image's registry is on this machine, where plain HTTP is allowed."""
    return reference.split("/")[0].rsplit(":", 1)[0] in LOOPBACK


def plain_http(reference: str, option: str) -> list[str]:
    """Return the option that lets skopeo speak plain HTTP to a registry on this machine, and only there."""
    return [f"--{option}=false"] if is_loopback(reference) else []


def look_up(reference: str) -> Manifest:
    """Return the image that the registry holds under a tag or a digest. Raises ImageError: none, or no answer."""
    told = inspect("--raw", reference)
    raw, digest = json.loads(told), hashlib.sha256(told.encode()).hexdigest()
    if "manifests" in raw:
        raise ImageError(f"{reference}: is a list of images for several platforms, not one image")
    return Manifest(f"sha256:{digest}", tuple(layer["size"] for layer in raw["layers"]))


def inspect(what: str, reference: str) -> str:
    """Return the manifest (--raw) or the configuration (--config) of an image, byte for byte. Raises ImageError."""
    problem = f"{reference}: the registry does not answer or has no such image"
    return skopeo("inspect", what, *plain_http(reference, "tls-verify"), f"docker://{reference}", problem=problem)


def find(reference: str) -> Manifest | None:
    """Return what the registry holds under a tag, or None when it answers that there is no such tag."""
    try:
        return look_up(reference)
    except ImageError as error:
        if not _says_absent(error):
            raise
    return None


def _says_absent(error: ImageError) -> bool:
    told = str(error).lower()
    here = "executable file not found" in told  # a credential helper of this machine, not an image
    return not here and any(sign in told for sign in ("manifest unknown", "name unknown", "not found"))


def config(reference: str) -> dict[str, Any]:
    """Return the configuration of an image in the registry, in the form of the OCI. Raises ImageError."""
    return dict(json.loads(inspect("--config", reference)))


def set_tag(source: str, repository: str, tag: str) -> None:
    """Copy a manifest, byte for byte, to a tag of a repository; raise ImageError when the tag then is another.

    source: repository@digest.
    """
    reference, digest = f"{repository}:{tag}", source.rpartition("@")[2]
    options = plain_http(source, "src-tls-verify") + plain_http(repository, "dest-tls-verify")
    problem = f"{reference}: the tag was not set"
    source, target = f"docker://{source}", f"docker://{reference}"
    skopeo("copy", "--quiet", "--preserve-digests", *options, source, target, problem=problem)
    if (found := look_up(reference).digest) != digest:
        raise ImageError(f"{problem}: the registry says {found}, expected {digest}")


def push_archive(archive: Path, reference: str) -> None:
    """Push what `docker save` wrote, its layers compressed with zstd. Raises ImageError."""
    form = ["--format=oci", "--dest-compress-format=zstd", f"--dest-compress-level={LEVEL}"]
    options = ["--quiet", *form, *plain_http(reference, "dest-tls-verify")]
    source, problem = f"docker-archive:{archive}", f"{reference}: was not pushed"
    skopeo("copy", *options, source, f"docker://{reference}", problem=problem)
