"""Where weights can come from, by the beginning of `source`. Each function returns the files that are there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from . import web
from .lockfile import LOCK, read
from .problems import AWAY, WRONG_USE, WeightsError
from .wanted import Wanted, shown

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Source:
    """Files by their paths, with their SHA-256 or "" where the source does not say it.

    bring: writes the file of a path to a target. revision: exact, such as a commit, "" where there are none.
    shown: the address for people.
    """

    files: dict[str, str]
    bring: Callable[[str, Path], object]
    revision: str = ""
    shown: str = ""
    # Files that were unpacked live as long as the source.
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)


def open_source(wanted: Wanted, root: Path) -> Source:
    """Return the source of weights; root: of the repository. Raises WeightsError."""
    scheme, _, rest = wanted.source.partition("://")
    if rest and scheme in _SCHEMES:
        source = _SCHEMES[scheme](wanted)
    elif re.match(r"\w+:", wanted.source):
        raise WeightsError(f"{wanted.source}: use hf://, oci://, s3://, gs://, https:// or a folder", WRONG_USE)
    else:
        source = _folder((root / os.path.expanduser(wanted.source)).resolve(), wanted.source)
    if wanted.revision and not source.revision:
        raise WeightsError(f"[{wanted.name}]: {shown(wanted.source)} has no revisions: leave revision out", WRONG_USE)
    return replace(_part(source, wanted) if LOCK in source.files else source, shown=shown(wanted.source))


def _part(source: Source, wanted: Wanted) -> Source:
    """Return one name of weights that were pushed, or left by a training: a folder for each name, and their lock."""
    with tempfile.TemporaryDirectory() as folder:
        source.bring(LOCK, Path(folder, LOCK))
        try:
            by_name = {one.name: one for one in read(Path(folder, LOCK)).weights}
        except WeightsError:
            return source  # somebody else's file of that name
    found = by_name.get(wanted.name) or (next(iter(by_name.values())) if len(by_name) == 1 else None)
    if found is None:
        raise WeightsError(
            f"[{wanted.name}]: {shown(wanted.source)} contains the weights {', '.join(sorted(by_name))}: "
            "use one of these names",
            WRONG_USE,
        )
    return replace(
        source,
        files={file.path: file.sha256 for file in found.files},
        bring=lambda path, target: source.bring(f"{found.name}/{path}", target),
    )


def _folder(place: Path, asked: str) -> Source:
    """Return the files of a folder, without hidden ones. A link to a file counts as the file."""
    if not place.is_dir():
        raise WeightsError(
            f"there is no folder {asked}: put the weights into the repository, as weights/NAME, or where everybody "
            "reaches them (scripts/weights push), and name that place in weights.toml",
            AWAY,
        )
    paths = []
    for path in sorted(place.rglob("*")):
        below = path.relative_to(place)
        if any(name.startswith(".") for name in below.parts):
            continue
        if path.is_file():
            paths.append(below.as_posix())
        elif path.is_symlink():
            raise WeightsError(f"{path} is a link to a folder or to nothing: replace it with the files")
    return Source(dict.fromkeys(paths, ""), lambda path, target: shutil.copyfile(place / path, target))


def _hub(wanted: Wanted) -> Source:
    """Return the files of a Hugging Face repository at a commit.

    HF_ENDPOINT is a mirror; HF_TOKEN, or the file that `hf auth login` writes, opens a closed repository.
    """
    name = wanted.source.removeprefix("hf://")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+|[\w.-]+", name):
        raise WeightsError(f"{wanted.source}: write hf://OWNER/NAME", WRONG_USE)
    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    headers = {"Authorization": f"Bearer {token}"} if (token := _hub_token()) else {}
    hint = f" ({wanted.source}; HF_ENDPOINT names a mirror, HF_TOKEN opens a closed repository)"
    api, commit = f"{endpoint}/api/models/{name}", wanted.revision or "main"
    try:
        if not _COMMIT.fullmatch(commit):
            commit = web.read_json(f"{api}/revision/{quote(commit, safe='')}", headers, hint)[0]["sha"]
        files: dict[str, str] = {}
        url: str | None = f"{api}/tree/{commit}?recursive=true&expand=false"
        while url:
            rows, answer = web.read_json(url, headers, hint)
            files |= {row["path"]: (row.get("lfs") or {}).get("oid", "") for row in rows if row["type"] == "file"}
            # A mirror may pass on the address of the hub itself: the rest is asked of the mirror too.
            following = re.search(r'<[^>]*?(/api/models/[^>]+)>;\s*rel="next"', answer.get("Link") or "")
            url = endpoint + following[1] if following else None
    except (KeyError, TypeError, ValueError):
        raise WeightsError(f"{endpoint} answered without a list of files{hint}", AWAY) from None
    base = f"{endpoint}/{name}/resolve/{commit}/"
    return Source(files, lambda path, target: web.download(base + quote(path), headers, hint, target), commit)


def _hub_token() -> str:
    if token := os.environ.get("HF_TOKEN"):
        return token.strip()
    place = Path(os.path.expanduser(os.environ.get("HF_HOME") or "~/.cache/huggingface"), "token")
    return place.read_text(encoding="utf-8").strip() if place.is_file() else ""


def _address(wanted: Wanted) -> Source:
    """Return the file of an address, or those that `files` names below it."""
    parts = urlsplit(wanted.source)
    if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
        raise WeightsError(f"{wanted.source}: write https://, http is for this machine alone", WRONG_USE)
    if any(sign in name for name in wanted.files for sign in "*?["):
        raise WeightsError(f"{wanted.source}: an address has no list of files: name each in files", WRONG_USE)
    last = unquote(parts.path.rpartition("/")[2])
    if not wanted.files and not last:
        raise WeightsError(f"{wanted.source}: say which files are below it: files = [...]", WRONG_USE)
    base = parts._replace(path=parts.path.rstrip("/"), query="").geturl()
    urls = {name: f"{base}/{quote(name)}" for name in wanted.files}
    if wanted.files in ((), (last,)):
        urls = {last: wanted.source}
    login = web.login(parts.hostname or "")
    hint = " (a login belongs in ~/.netrc, or in the file that NETRC names)"
    return Source(dict.fromkeys(urls, ""), lambda path, target: web.download(urls[path], login, hint, target))


def _bucket(wanted: Wanted) -> Source:
    """Return the objects below an address of S3 or Google Cloud Storage."""
    fs, filesystem, root = bucket_of(wanted.source)
    try:
        found = filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    except OSError as error:
        raise WeightsError(f"{shown(wanted.source)} cannot be listed: {error}", AWAY) from None
    files = {one.path.removeprefix(f"{root}/"): "" for one in found if one.is_file}
    if not files:
        raise WeightsError(f"{shown(wanted.source)} contains no objects, or may not be listed", AWAY)

    def bring(path: str, target: Path) -> None:
        try:
            fs.copy_files(f"{root}/{path}", str(target), source_filesystem=filesystem)
        except OSError as error:
            raise WeightsError(f"{shown(wanted.source)}/{path}: {error}; run the same command again", AWAY) from None

    return Source(files, bring)


def bucket_of(address: str) -> tuple[Any, Any, str]:
    """Return pyarrow's module of file systems, that of a bucket, and the path in it. Raises WeightsError."""
    try:
        from pyarrow import fs
    except ImportError:
        raise WeightsError(
            f"{shown(address)}: s3:// and gs:// need pyarrow: add it to the dependencies in pyproject.toml, then run "
            "scripts/lock and scripts/setup",
            WRONG_USE,
        ) from None
    try:
        filesystem, root = fs.FileSystem.from_uri(address)
    except (OSError, ValueError) as error:
        raise WeightsError(f"{shown(address)}: {error}", WRONG_USE) from None
    return fs, filesystem, root.rstrip("/")


def _image(wanted: Wanted) -> Source:
    """Return the files below /models of an image, which Docker pulls with its own login."""
    name = wanted.source.removeprefix("oci://")
    if not re.fullmatch(r"[\w.-]+(:\d+)?(/[\w.-]+)+", name):
        raise WeightsError(f"{wanted.source}: write oci://HOST/REPOSITORY, and the tag as revision", WRONG_USE)
    sign = "@" if wanted.revision.startswith("sha256:") else ":"
    reference = f"{name}{sign}{wanted.revision}"
    if not wanted.revision:
        raise WeightsError(f"{wanted.source}: say which image: revision is a tag or sha256:...", WRONG_USE)
    folder = tempfile.TemporaryDirectory()
    run(["docker", "pull", "--quiet", reference], wanted.source)
    container = run(["docker", "create", reference, "none"], wanted.source)
    try:
        run(["docker", "cp", f"{container}:/models", folder.name], wanted.source)
    finally:
        run(["docker", "rm", container], wanted.source)
    inside = _folder(Path(folder.name, "models"), wanted.source)
    return replace(inside, revision=image_digest(reference, name), folder=folder)


def image_digest(reference: str, name: str) -> str:
    """Return the digest by which a registry knows an image that was pulled or pushed. Raises WeightsError."""
    known = run(["docker", "inspect", "--format", '{{join .RepoDigests "\\n"}}', reference], f"oci://{name}")
    digests = dict(one.split("@") for one in known.splitlines())
    return digests.get(name) or digests[name.removeprefix("docker.io/")]


def run(command: list[str], what: str, text: str | None = None, cwd: Path | None = None) -> str:
    """Run a program and return its output. Raises WeightsError with its last line, about `what`."""
    try:
        done = subprocess.run(command, input=text, cwd=cwd, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise WeightsError(f"{what} needs {command[0]}, which is not installed", AWAY) from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"{command[0]} gave no reason"])[-1]
        raise WeightsError(f"{what}: {said}", AWAY)
    return done.stdout.strip()


_SCHEMES = {
    "hf": _hub, "oci": _image, "s3": _bucket, "gs": _bucket, "https": _address, "http": _address,
}  # fmt: skip
