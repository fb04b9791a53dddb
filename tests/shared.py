"""What is made once for all workers of a run, and a Copier that does no work twice."""

from __future__ import annotations

import fcntl
import hashlib
import marshal
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, MutableMapping
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Any

import copier._template
import pytest
from fleetkit import speed
from packaging.version import Version

SHARED = "TESTS_SHARED_FOLDER"  # the variable that says to processes of this run what shared_folder says


def without_shims(path: str) -> str:
    """Return a PATH on which this Python is itself: a version manager's stand-in starts a dozen shells before it."""
    folders = [folder for folder in path.split(os.pathsep) if Path(folder).name != "shims"]
    return os.pathsep.join([str(Path(sys.base_prefix) / "bin"), *folders])


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of this run have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own


def once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Let the first who asks `make` the folder, the others wait; what failed is made again by the next."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{folder.name}.done")
    with folder.with_name(f"{folder.name}.wait").open("w") as waiting:
        fcntl.flock(waiting, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            done.touch()
    return folder


class CompiledTemplates(MutableMapping[tuple[Any, ...], CodeType]):
    """Compiled Jinja templates in a folder: each is compiled once for all processes that share it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.read = folder, dict[tuple[Any, ...], CodeType]()

    def _file(self, key: tuple[Any, ...]) -> Path:
        return self.folder / hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()

    def __getitem__(self, key: tuple[Any, ...]) -> CodeType:
        """Return it; raise KeyError where nobody has compiled it yet."""
        if key not in self.read:
            try:
                self.read[key] = marshal.loads(self._file(key).read_bytes())
            except FileNotFoundError:
                raise KeyError(key) from None
        return self.read[key]

    def __setitem__(self, key: tuple[Any, ...], code: CodeType) -> None:
        """Keep it; another process sees all of it or nothing."""
        self.read[key] = code
        number, half = tempfile.mkstemp(dir=self.folder)
        with os.fdopen(number, "wb") as file:
            file.write(marshal.dumps(code))
        os.replace(half, self._file(key))

    def __delitem__(self, key: tuple[Any, ...]) -> None:
        """Forget it."""
        del self.read[key]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Go through what this process has read."""
        return iter(self.read)

    def __len__(self) -> int:
        """Count what this process has read."""
        return len(self.read)


def share_checkouts(folder: Path) -> None:
    """Check each commit of a local template out once for all processes; Copier only reads its checkouts.

    Copier names a version by the tags of its checkout: with other branches or tags it is another checkout.
    """
    original = copier._template.clone
    tagged: dict[Path, str] = {}

    def clone(url: str, ref: str = "HEAD", location: str | None = None) -> str:
        refs = _refs(url)
        commit = _commit(url, ref, refs) if isinstance(ref, str) and ref != "HEAD" else ""
        if not commit:
            return str(original(url, ref, location))

        def make(place: Path) -> None:
            subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", url, place], check=True)
            subprocess.run(["git", "checkout", "--quiet", "--force", "--detach", commit], cwd=place, check=True)
            if (place / ".gitmodules").exists():
                shutil.rmtree(place)
                place.mkdir()
                original(url, commit, str(place))

        state = f"{url}\n{commit}\n{refs}"
        place = once(folder / hashlib.sha256(state.encode()).hexdigest()[:16], make)
        names = re.findall(rf"(?m)^{commit} refs/tags/(.+?)(?:\^{{}})?$", refs)
        if len(names) == 1 and re.fullmatch(r"v[0-9.]+", names[0]):
            tagged[place] = names[0]
        return str(place)

    setattr(copier._template, "clone", clone)  # noqa: B010  (mypy refuses an assignment to an import)
    _answer_for("commit", tagged.get)
    _answer_for("version", lambda place: Version(tagged[place][1:]) if place in tagged else None)


def _answer_for(name: str, known: Callable[[Path], object]) -> None:
    """Give what is known of a checkout with one tag: Copier asks git a dozen times."""
    original: Callable[[Any], Any] = copier._template.Template.__dict__[name].func
    asked = cached_property(lambda template: known(template.local_abspath) or original(template))
    asked.__set_name__(copier._template.Template, name)
    setattr(copier._template.Template, name, asked)


def _refs(repository: str) -> str:
    """Return the names of a local repository and their commits as git lists them, "" where it is none."""
    return _said(repository, "show-ref", "--dereference")


def _commit(repository: str, ref: str, refs: str) -> str:
    """Return the commit of a name, "" where there is none."""
    listed = {name: commit for commit, _, name in (line.partition(" ") for line in refs.splitlines())}
    for name in (f"refs/tags/{ref}", ref if ref.startswith("refs/") else ""):
        if name in listed:
            return listed.get(f"{name}^{{}}", listed[name])
    return _said(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")


def _said(repository: str, *command: str) -> str:
    """Return what git says in a local repository, "" where it is none."""
    if not Path(repository).is_dir():
        return ""
    done = subprocess.run(["git", *command], cwd=repository, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def make_copier_cheap(shared: Path) -> None:
    """Let Copier in this process do what it does with less work; `shared` is for all processes of the run."""
    speed.compile_templates_once(CompiledTemplates(shared / "compiled"))
    speed.ask_for_file_mode_once()
    share_checkouts(shared / "checkouts")
