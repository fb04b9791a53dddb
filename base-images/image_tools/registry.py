"""Talk to an image registry through skopeo: push, look up, copy a digest to a tag."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_repo_runtime import patience

from .catalog import ImageError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANSWER_S, COPY_S = 120, 3600


@dataclass(frozen=True)
class Manifest:
    """What a registry holds under a name: digest (sha256:...), compressed bytes per layer, digest of the config.

    A list of images for several platforms has neither layers nor a config, but its images: {platform: digest}.
    """

    digest: str
    layers: tuple[int, ...]
    config: str
    images: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Compressed bytes of all layers: what a node that has none of them pulls."""
        return sum(self.layers)


def skopeo(*arguments: str, problem: str) -> str:
    """Run skopeo, patiently, and return what it prints; raise ImageError that starts with `problem`."""
    if not shutil.which("skopeo"):
        raise ImageError(f"{problem}: skopeo is not installed (Debian has it: apt-get install skopeo)")
    limit = COPY_S if arguments[0] == "copy" else ANSWER_S
    code, printed, complaint = patience.run(["skopeo", *arguments], limit)
    if code:
        raise ImageError(f"{problem}: {(complaint.splitlines() or ['skopeo gave no reason'])[-1][:500]}")
    return printed


def plain_http(reference: str, option: str) -> list[str]:
    """Return the option that lets skopeo speak plain HTTP to a registry on this machine, and only there."""
    host = reference.split("/")[0].rsplit(":", 1)[0]
    return [f"--{option}=false"] if host in LOOPBACK else []


def look_up(reference: str) -> Manifest:
    """Return what the registry holds under a tag or a digest; raise ImageError when it holds nothing or is away."""
    problem = f"{reference}: the registry does not answer or has no such image"
    options = plain_http(reference, "tls-verify")
    digest = skopeo(
        "inspect", "--no-tags", "--format", "{{.Digest}}", *options, f"docker://{reference}", problem=problem
    )
    raw = json.loads(skopeo("inspect", "--raw", *options, f"docker://{reference}", problem=problem))
    if "manifests" in raw:
        places = [(one.get("platform") or {}, one["digest"]) for one in raw["manifests"]]
        return Manifest(digest.strip(), (), "", {f"{at.get('os')}/{at.get('architecture')}": one for at, one in places})
    return Manifest(digest.strip(), tuple(layer["size"] for layer in raw["layers"]), raw["config"]["digest"])


def find(reference: str) -> Manifest | None:
    """Return what the registry holds under a tag, or None when it answers that there is no such tag.

    A registry may say so by mistake: the list of its tags has to agree, else ImageError.
    """
    try:
        return look_up(reference)
    except ImageError as error:
        if not _says_absent(error):
            raise
    repository, _, tag = reference.rpartition(":")
    if "@" not in reference and tag in tags(repository):
        raise ImageError(f"{reference}: the registry lists this tag and says that it is not there; try again later")
    return None


def _says_absent(error: ImageError) -> bool:
    told = str(error).lower()
    here = "executable file not found" in told  # a credential helper of this machine, not an image
    return not here and any(sign in told for sign in ("manifest unknown", "name unknown", "not found"))


def tags(repository: str) -> list[str]:
    """Return the tags of a repository; none when there is no such repository. Raises ImageError."""
    problem = f"{repository}: the registry does not answer"
    try:
        text = skopeo("list-tags", *plain_http(repository, "tls-verify"), f"docker://{repository}", problem=problem)
    except ImageError as error:
        if _says_absent(error):
            return []
        raise
    found: list[str] = json.loads(text)["Tags"] or []
    return found


def config(reference: str) -> dict[str, Any]:
    """Return the configuration of an image in the registry, in the form of the OCI. Raises ImageError."""
    problem = f"{reference}: the registry does not answer or has no such image"
    text = skopeo("inspect", "--config", *plain_http(reference, "tls-verify"), f"docker://{reference}", problem=problem)
    found: dict[str, Any] = json.loads(text)
    return found


def set_tag(source: str, repository: str, tag: str) -> None:
    """Copy a manifest, byte for byte, to a tag of a repository; raise ImageError when the tag then is another.

    source: repository@digest.
    """
    reference, digest = f"{repository}:{tag}", source.rpartition("@")[2]
    options = plain_http(source, "src-tls-verify") + plain_http(repository, "dest-tls-verify")
    problem = f"{reference}: the tag was not set"
    source, target = f"docker://{source}", f"docker://{reference}"
    skopeo("copy", "--quiet", "--all", "--preserve-digests", *options, source, target, problem=problem)
    if (found := look_up(reference).digest) != digest:
        raise ImageError(f"{problem}: the registry says {found}, expected {digest}")


def prove_readable(source: str, repository: str) -> None:
    """Set a tag that nobody uses, first-DIGEST, and read it back; raise ImageError where it is not shown.

    To an account that may not look, a registry says of everything that it is not there: a tag that never moves could
    then be set anew.
    """
    tag = f"first-{source.rpartition(':')[2][:12]}"
    problem = f"{repository}: does not show the tag {tag}, which was set just now; no release tag was set"
    way = "let the account that releases read what is released"
    try:
        set_tag(source, repository, tag)
    except ImageError as error:
        raise ImageError(f"{problem}: {way} ({error})") from error
    if tag not in tags(repository):
        raise ImageError(f"{problem}: {way}, and list its tags")


def raw_manifest(reference: str) -> bytes:
    """Return a manifest as the registry holds it. Raises ImageError."""
    problem = f"{reference}: the registry does not answer or has no such image"
    options = plain_http(reference, "tls-verify")
    return skopeo("inspect", "--raw", *options, f"docker://{reference}", problem=problem).encode()


def push_layout(layout: Path, reference: str, only_list: bool = False) -> None:
    """Push the one image of a layout, byte for byte; of a list, the list alone where it says so. Raises ImageError."""
    options = [
        "--quiet",
        *(["--multi-arch", "index-only"] if only_list else []),
        "--preserve-digests",
        *plain_http(reference, "dest-tls-verify"),
    ]
    skopeo("copy", *options, f"oci:{layout}", f"docker://{reference}", problem=f"{reference}: was not pushed")


def pull_layout(reference: str, layout: Path) -> None:
    """Bring an image into a layout, byte for byte. Raises ImageError."""
    options = ["--quiet", "--preserve-digests", *plain_http(reference, "src-tls-verify")]
    skopeo("copy", *options, f"docker://{reference}", f"oci:{layout}", problem=f"{reference}: cannot be read")
