"""The released versions of a template: which there are, what each says of itself, what changed between two.

A release is a tag vX.Y.Z, or else the commit that changes VERSION to X.Y.Z: a clone may come without tags. The
template is fetched once into a cache; Copier then works on a copy beside it that holds a tag for each release.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from packaging.version import InvalidVersion, Version
from platformdirs import user_cache_dir

from .git_calls import NOBODY, UpdateError, call, git, last_line, remote_git, without_password

__all__ = ["Release", "Template", "UpdateError", "changes_between", "last_line", "release", "version_of", "versions"]

UPSTREAM = "refs/upstream"
COMMIT = re.compile(r"(.*-g)?[0-9a-f]{4,64}")  # as `git describe` names it, too
SHORT = {"gh:": "https://github.com/", "gl:": "https://gitlab.com/"}
FETCHING = threading.Lock()


@dataclass(frozen=True)
class Template:
    """A template as it was fetched: `place` is a bare repository with one tag for each release."""

    source: str
    place: Path
    known: dict[Version, str]
    untagged: tuple[str, ...]
    twice: frozenset[Version]

    def commit(self, name: str) -> str | None:
        """Return the commit that a tag, a description of git or a hash names, None where there is none."""
        if name.startswith("-"):
            return None
        version = version_of(name)
        if not version and not COMMIT.fullmatch(name):  # a branch: it says where the template is today
            return None
        asked = self.known.get(version, name) if version else name
        done = call(self.place, "rev-parse", "--verify", "--quiet", asked + "^{commit}")
        return done.stdout.decode().strip() or None

    def is_before(self, old: str, new: str) -> bool:
        """Tell whether the commit `old` is part of the history of `new`."""
        return call(self.place, "merge-base", "--is-ancestor", old, new).returncode == 0

    def release_in(self, commit: str, name: str = "") -> str:
        """Return the newest release that is part of the history of a commit, which may have the `name` of one."""
        named = self.known.get(version_of(name) or Version("0"), "") if name else ""
        return named or next((tag for tag in reversed(self.known.values()) if self.has(commit, tag)), "")

    def has(self, commit: str, tag: str) -> bool:
        """Tell whether a release is part of the history of a commit."""
        released = self.commit(tag)
        return released is not None and self.is_before(released, commit)

    def found_by(self) -> str:
        """Return the sentence about releases that have no tag, "" where each has one."""
        if not self.untagged:
            return ""
        which = ", ".join(self.untagged) if len(self.untagged) < len(self.known) else "its releases"
        return f"the template has no tag for {which}: found by the commits of VERSION (`make tags` there sets them)"


@dataclass(frozen=True)
class Release:
    """One version of the template: its tag and what it says of itself."""

    tag: str
    changelog: str
    questions: tuple[str, ...]


def version_of(tag: str) -> Version | None:
    """Return the version that a tag names, or None; the beginning of a hash is none, even of digits alone."""
    if re.fullmatch(r"[0-9a-f]{7,64}", tag):
        return None
    try:
        return Version(tag)
    except InvalidVersion:
        return None


def version_commits(repository: Path, tip: str, current: str | None = None) -> dict[Version, str]:
    """Return the commit of each version that VERSION named on the way to `tip`, oldest version first.

    The newest commit of a version counts. A version X.Y.Z.devN is being made: it and what is later is not released.
    `current` is what VERSION says where the work tree says something else than `tip`.
    """
    found: dict[Version, str] = {}
    # not git log, which listens to what a person set up for it (signatures shown, an order of files that is gone)
    listed = call(repository, "rev-list", "--no-merges", tip, "--", "VERSION").stdout.decode()
    for commit in listed.split():
        version = version_of(call(repository, "show", f"{commit}:VERSION").stdout.decode(errors="replace").strip())
        if version and not (version.is_devrelease or version.is_postrelease or version.local):
            found.setdefault(version, commit)
    text = call(repository, "show", f"{tip}:VERSION").stdout.decode(errors="replace") if current is None else current
    prepared = version_of(text.strip())
    if prepared and prepared.is_devrelease:
        found = {version: commit for version, commit in found.items() if version < prepared}
    return dict(sorted(found.items()))


def address_of(source: str) -> str:
    """Return the address that git understands for a source in Copier's words. Raises UpdateError."""
    if source.startswith("-") or not source.strip() or re.search(r"[\x00-\x1f]", source):
        raise UpdateError(f"{without_password(source)!r} is not the address of a template")
    for short, host in SHORT.items():
        if source.startswith(short):
            return f"{host}{source.removeprefix(short).lstrip('/').removesuffix('.git')}.git"
    place = Path(os.path.expanduser(source))
    return str(place.resolve()) if place.exists() else source.removeprefix("git+")


@contextmanager
def cached(address: str) -> Iterator[Path]:
    """Give the bare repository that keeps what was fetched from an address, for this process alone."""
    try:
        folder = Path(os.environ.get("COPIER_CACHE_DIR") or user_cache_dir("copier", appauthor=False))
    except RuntimeError:  # HOME is unset, and the system does not know the user
        folder = temporary(None)
    key = sha256(without_password(address).encode(errors="surrogateescape")).hexdigest()[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f"{key}.lock").open("w")
    except OSError:  # no home, or a cache that cannot be written
        folder = temporary(None)
        lock = (folder / f"{key}.lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = folder / f"{key}.releases.git"
        if call(folder, "rev-parse", "--is-bare-repository", more={"GIT_DIR": str(place)}).stdout.strip() != b"true":
            shutil.rmtree(place, ignore_errors=True)
            git(folder, "init", "--quiet", "--bare", "--template=", str(place), more=NOBODY)
        yield place


def temporary(folder: Path | None) -> Path:
    """Make a folder that goes when this process ends."""
    made = Path(mkdtemp(prefix="template-", dir=folder))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def fetch(place: Path, address: str) -> None:
    """Bring tags, branches and HEAD of an address into `place`. Raises UpdateError."""
    wanted = [f"+refs/{kind}/*:{UPSTREAM}/{kind}/*" for kind in ("tags", "heads")]
    options = ("fetch", "--quiet", "--no-tags", "--prune", "--force", "--update-shallow", "--no-write-fetch-head")
    try:
        remote_git(place, address, *options, "--", "{}", *wanted, f"+HEAD:{UPSTREAM}/HEAD")
    except UpdateError as error:
        if "couldn't find remote ref HEAD" not in str(error):
            raise
        remote_git(place, address, *options, "--", "{}", *wanted)


def tags_of(place: Path) -> dict[str, str]:
    """Return the commits of the tags that name a version."""
    form = "--format=%(refname:lstrip=3)%09%(objectname)%09%(*objectname)"
    rows = [line.split("\t") for line in git(place, "for-each-ref", form, f"{UPSTREAM}/tags").splitlines()]
    return {name: inner or outer for name, outer, inner in rows if version_of(name)}


def work_copy(kept: Path, refs: dict[str, str]) -> Path:
    """Return a bare repository of this process with `refs`, on the objects that are kept in the cache."""
    place = temporary(kept.parent) / "template.git"
    git(kept.parent, "init", "--quiet", "--bare", "--template=", str(place), more=NOBODY)
    (place / "objects" / "info").mkdir(exist_ok=True)
    (place / "objects" / "info" / "alternates").write_text(f"{kept / 'objects'}\n", encoding="utf-8")
    lines = [f"{commit} {name}\n" for name, commit in sorted(refs.items())]
    (place / "packed-refs").write_text("".join(["# pack-refs with: sorted\n", *lines]), encoding="utf-8")
    (place / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    if (kept / "shallow").exists():
        shutil.copyfile(kept / "shallow", place / "shallow")
    return place


@cache
def fetched(source: str) -> Template:
    """Fetch a template and return it with its releases. Raises UpdateError."""
    with cached(address_of(source)) as kept:
        fetch(kept, address_of(source))
        tags = tags_of(kept)
        head = call(kept, "rev-parse", "--verify", "--quiet", f"{UPSTREAM}/HEAD").stdout.decode().strip()
        written = version_commits(kept, head) if head else {}
        named: dict[Version, dict[str, str]] = {}
        for name, commit in sorted(tags.items(), key=lambda pair: not pair[0].startswith("v")):
            version = version_of(name)
            assert version is not None
            named.setdefault(version, {})[name] = commit
        prefix = "" if tags and not any(name.startswith("v") for name in tags) else "v"
        marked = set(tags.values())  # where tag and VERSION do not agree, the tag counts
        untagged = {v: f"{prefix}{v}" for v, commit in written.items() if v not in named and commit not in marked}
        chosen = {version: next(iter(names)) for version, names in named.items()} | untagged
        commits = {chosen[version]: commit for version, commit in written.items() if version in untagged}
        commits |= {name: tags[name] for version, name in chosen.items() if version in named}
        refs = {f"refs/tags/{name}": commit for name, commit in commits.items()}
        place = work_copy(kept, refs | ({"refs/heads/main": head} if head else {}))
    return Template(
        source, place, dict(sorted(chosen.items())), tuple(untagged[version] for version in sorted(untagged)),
        frozenset(version for version, names in named.items() if len(set(names.values())) > 1),
    )  # fmt: skip


def template_of(source: str) -> Template:
    """Return a template with its releases; it is fetched once in a process. Raises UpdateError."""
    with FETCHING:
        return fetched(source)


def versions(source: str) -> dict[Version, str]:
    """Return the released versions of the template and their tags, oldest first. Raises UpdateError."""
    return {version: tag for version, tag in template_of(source).known.items() if not version.is_prerelease}


@cache
def release(source: str, tag: str) -> Release:
    """Return what one version of the template says of itself. Raises UpdateError."""
    place = template_of(source).place
    try:
        names = git(place, "ls-tree", "--name-only", f"refs/tags/{tag}").splitlines()
        texts = {n: git(place, "show", f"refs/tags/{tag}:{n}") for n in ("CHANGELOG.md", "copier.yml") if n in names}
    except subprocess.CalledProcessError as error:
        raise UpdateError(f"{tag} of the template cannot be read: {last_line(error.stderr)}") from error
    entries = re.findall(r"(?ms)^([a-z]\w*):(.*?)(?=^\S|\Z)", texts.get("copier.yml", ""))
    asked = tuple(name for name, text in entries if not re.search(r"\bwhen: false\b", text))  # else it is computed
    return Release(tag, texts.get("CHANGELOG.md", ""), asked)


def changes_between(changelog: str, old: str, new: str) -> str:
    """Return the sections of the changelog after version `old` up to `new`."""
    low, high = version_of(old), version_of(new)
    told = []
    for section in re.split(r"(?m)^(?=## )", changelog):
        heading = re.match(r"## \[?v?([0-9][^\]\s]*)", section)
        version = version_of(heading[1]) if heading else None
        if version and high and (low is None or low < version) and version <= high:
            told.append(section.strip())
    return "\n\n".join(told)
