"""Where weights can come from, by the beginning of `source`. Each function returns the files that are there."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.client import HTTPMessage
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from . import web
from .lockfile import LOCK, read
from .problems import AWAY, WRONG_USE, WeightsError
from .wanted import Wanted

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Source:
    """Files by their paths, with their SHA-256, or "" where the source does not have it.

    bring: writes the file of a path to a target. revision: exact, for example a commit; "" where there are none.
    """

    files: dict[str, str]
    bring: Callable[[str, Path], object]
    revision: str = ""


def open_source(wanted: Wanted, root: Path) -> Source:
    """Return the source of weights; root: of the repository. Raises WeightsError."""
    scheme, mark, _ = wanted.source.partition("://")
    if mark and scheme in _SCHEMES:
        source = _SCHEMES[scheme](wanted)
    elif re.match(r"\w+:", wanted.source):
        raise WeightsError(f"{wanted.source}: use hf://, oci://, s3://, gs://, https:// or a folder", WRONG_USE)
    else:
        source = _folder((root / os.path.expanduser(wanted.source)).resolve(), wanted.source)
    if wanted.revision and not source.revision:
        raise WeightsError(f"[{wanted.name}]: {wanted.source} has no revisions: leave revision out", WRONG_USE)
    return _part(source, wanted) if LOCK in source.files else source


def _part(source: Source, wanted: Wanted) -> Source:
    """Return one name of weights that were pushed, or written by a training: a folder for each name, and their lock."""
    with tempfile.TemporaryDirectory() as folder:
        source.bring(LOCK, Path(folder, LOCK))
        by_name = {one.name: one for one in read(Path(folder, LOCK)).weights}
    found = next(iter(by_name.values())) if len(by_name) == 1 else by_name.get(wanted.name)
    if found is None:
        names = ", ".join(sorted(by_name))
        raise WeightsError(f"[{wanted.name}]: {wanted.source} has {names}: use one of these names", WRONG_USE)
    return replace(
        source,
        files={file.path: file.sha256 for file in found.files},
        bring=lambda path, target: source.bring(f"{found.name}/{path}", target),
    )


def _folder(place: Path, asked: str) -> Source:
    """Return the files of a folder, without hidden ones. A link to a file counts as the file."""
    if not place.is_dir():
        where = "the folder weights/NAME of the repository, a bucket or an image"
        raise WeightsError(f"there is no folder {asked}: for other machines, put the weights into {where}", AWAY)
    files = {}
    for path in place.rglob("*"):
        below = path.relative_to(place)
        if any(name.startswith(".") for name in below.parts):
            continue
        if path.is_file():
            files[below.as_posix()] = ""
        elif path.is_symlink():
            raise WeightsError(f"{path} is a link to a folder or to nothing: replace it with the files")
    return Source(files, lambda path, target: shutil.copyfile(place / path, target))


def _image(wanted: Wanted) -> Source:
    """Return the files below /models of an image, which Docker pulls with its own login."""
    name, revision = wanted.source.removeprefix("oci://"), wanted.revision
    if not revision:
        raise WeightsError(f"{wanted.source}: expected a tag or sha256:... as revision", WRONG_USE)
    reference = f"{name}{'@' if revision.startswith('sha256:') else ':'}{revision}"
    _docker("pull", "--quiet", reference)
    digests = _docker("inspect", "--format", "{{range .RepoDigests}}{{println .}}{{end}}", reference).split()
    container = _docker("create", reference, "none")
    folder = tempfile.TemporaryDirectory()
    try:
        _docker("cp", f"{container}:/models", folder.name)
    finally:
        _docker("rm", container)

    def bring(path: str, target: Path) -> None:
        shutil.copyfile(Path(folder.name, "models", path), target)  # the folder exists as long as this function

    files = _folder(Path(folder.name, "models"), wanted.source).files
    repositories = dict(one.split("@") for one in digests)
    return Source(files, bring, repositories.get(name) or repositories[name.removeprefix("docker.io/")])


def _docker(action: str, *arguments: str) -> str:
    """Run a command of Docker and return its output. Raises WeightsError with its message."""
    try:
        done = subprocess.run(["docker", action, *arguments], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise WeightsError("oci:// needs Docker, which is not installed", AWAY) from None
    if done.returncode:
        raise WeightsError(f"docker {action} {arguments[-1]}: {done.stderr}", AWAY)
    return done.stdout.strip()


def _hub(wanted: Wanted) -> Source:
    """Return the files of a Hugging Face repository at a commit.

    HF_ENDPOINT is a mirror; HF_TOKEN, or the file that `hf auth login` writes, opens a private repository.
    """
    name = wanted.source.removeprefix("hf://")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+|[\w.-]+", name):
        raise WeightsError(f"{wanted.source}: expected hf://OWNER/NAME", WRONG_USE)
    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    login = f"Bearer {token}" if (token := _hub_token()) else ""
    api, commit = f"{endpoint}/api/models/{name}", wanted.revision or "main"
    try:
        if not _COMMIT.fullmatch(commit):
            commit = _json(f"{api}/revision/{quote(commit, safe='')}", login)[0]["sha"]
        files: dict[str, str] = {}
        url: str | None = f"{api}/tree/{commit}?recursive=true&expand=false"
        while url:
            rows, answer = _json(url, login)
            files |= {row["path"]: (row.get("lfs") or {}).get("oid", "") for row in rows if row["type"] == "file"}
            # A mirror may pass on the address of the hub itself: the rest is requested from the mirror too.
            following = re.search(r'<[^>]*?(/api/models/[^>]+)>;\s*rel="next"', answer.get("Link") or "")
            url = endpoint + following[1] if following else None
    except (KeyError, TypeError, ValueError):
        raise WeightsError(f"{wanted.source}: {endpoint} answered without a list of files", AWAY) from None
    base = f"{endpoint}/{name}/resolve/{commit}/"
    return Source(files, lambda path, target: _download(base + quote(path), login, target), commit)


def _hub_token() -> str:
    if token := os.environ.get("HF_TOKEN"):
        return token.strip()
    place = Path(os.path.expanduser(os.environ.get("HF_HOME") or "~/.cache/huggingface"), "token")
    return place.read_text(encoding="utf-8").strip() if place.is_file() else ""


def _json(url: str, login: str) -> tuple[Any, HTTPMessage]:
    body = io.BytesIO()
    headers = web.get(url, login, body)
    return json.loads(body.getvalue()), headers


def _download(url: str, login: str, target: Path) -> None:
    with target.open("wb") as file:
        web.get(url, login, file)


def _address(wanted: Wanted) -> Source:
    """Return the file of an address, or those that `files` names below it."""
    parts = urlsplit(wanted.source)
    if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
        raise WeightsError(f"{wanted.source}: use https://; http:// is for this machine alone", WRONG_USE)
    last = unquote(parts.path.rpartition("/")[2])
    if any(sign in name for name in wanted.files for sign in "*?[") or not (wanted.files or last):
        raise WeightsError(f"{wanted.source}: an address has no list of files: name each in files = [...]", WRONG_USE)
    base = parts._replace(path=parts.path.rstrip("/"), query="").geturl()
    urls = {name: f"{base}/{quote(name)}" for name in wanted.files}
    if wanted.files in ((), (last,)):
        urls = {last: wanted.source}
    login = web.login_of(parts.hostname or "")
    return Source(dict.fromkeys(urls, ""), lambda path, target: _download(urls[path], login, target))


def _bucket(wanted: Wanted) -> Source:
    """Return the objects below an address of S3 or Google Cloud Storage."""
    try:
        from pyarrow import fs
    except ImportError:
        raise WeightsError(
            f"{wanted.source}: s3:// and gs:// need pyarrow: add it to the dependencies in pyproject.toml, then run "
            "scripts/lock and scripts/setup",
            WRONG_USE,
        ) from None
    try:
        filesystem, root = fs.FileSystem.from_uri(wanted.source)
        root = root.rstrip("/")
        found = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
    except (OSError, ValueError) as error:
        raise WeightsError(f"{wanted.source} cannot be listed: {error}", AWAY) from None
    files = {one.path.removeprefix(f"{root}/"): "" for one in found if one.is_file}
    return Source(files, lambda path, to: fs.copy_files(f"{root}/{path}", str(to), source_filesystem=filesystem))


_SCHEMES = {"hf": _hub, "oci": _image, "s3": _bucket, "gs": _bucket, "https": _address, "http": _address}
