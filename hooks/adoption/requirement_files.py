"""Requirements files, and what else holds lines for pip: which of them count, and what their lines ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from adoption.packaged import Packaging
from adoption.requirements import lines_of, without_hashes
from adoption.texts import decoded, named
from adoption.tree import ASIDE

DEV_FILE = re.compile(r"(?<![a-z])(dev|develop|development|test|tests|testing|lint|ci|optional)(?![a-z])")
EXTRA_FILE = re.compile(r"(?<![a-z])extras?(?![a-z])")  # what an extra of setup.py reads
NOT_OURS = re.compile(r"(docs?|example|benchmark|notebook|demo|readthedocs)")
MAIN_FILE = re.compile(r"(?<![a-z])(base|main|core|common|runtime|run|prod|production|app|server)(?![a-z])")
GPU_FILE = re.compile(r"(?<![a-z])(gpu|cuda|torch|pytorch|tensorflow|jax)(?![a-z])")
OTHER_MACHINE = re.compile(r"(?<![a-z])(cpu|rocm|amd|mac|macos|osx|win|windows|arm|arm64|mps|xpu|hpu|tpu)(?![a-z])")
NO_HASH = "it comes from an address and not from an index, so it has no hash to lock"


def every_file(folder: Path) -> list[Path]:
    """Return the requirements files at the root and in requirements/ that are about the code."""
    patterns = ("*requirements*.txt", "requirements/*.txt", "*requirements*.in", "requirements/*.in")
    found = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    return [path for path in found if not NOT_OURS.search(path.name.lower())]


def requirement_files(folder: Path, dev: bool = False) -> list[Path]:
    """Return the requirements files to read, those for development or the others."""
    chosen = [path for path in every_file(folder) if bool(DEV_FILE.search(words_of(path))) == dev]
    if dev:
        return chosen
    chosen = [path for path in chosen if not EXTRA_FILE.search(words_of(path))]
    here = [path for path in chosen if not OTHER_MACHINE.search(words_of(path))]
    main = [path for path in here if path.name == "requirements.txt"]
    main = main or [path for path in here if path.suffix == ".in"] or [p for p in here if MAIN_FILE.search(words_of(p))]
    gpu = [path for path in here if GPU_FILE.search(words_of(path)) and path not in main]
    return main + gpu or chosen[:1] or _alone(folder)


def _alone(folder: Path) -> list[Path]:
    """Return the one requirements.txt that lies in a folder of the repository, none where there are several."""
    found = elsewhere(folder)
    return found if len(found) == 1 and found[0].name == "requirements.txt" else []


def elsewhere(folder: Path) -> list[Path]:
    """Return the requirements files in folders of the repository, but for those beside the code."""
    found = [path for depth in ("*", "*/*") for path in folder.glob(f"{depth}/*requirements*.txt")]
    inner = [(path, path.relative_to(folder).parts) for path in sorted(found)]
    return [
        path
        for path, parts in inner
        if parts[0] not in ("requirements", ".git") and not {part.lower() for part in parts} & ASIDE
        and not NOT_OURS.search(path.name.lower()) and not DEV_FILE.search(words_of(path))
    ]  # fmt: skip


def words_of(path: Path) -> str:
    """Return what the name of a requirements file says beside that it is one."""
    return path.stem.lower().replace("requirements", "")


@dataclass(frozen=True)
class Reader:
    """Reads files with lines for pip into `found`; `seen` are the files that led here."""

    folder: Path
    found: Packaging
    dev: bool = False
    seen: frozenset[Path] = frozenset()

    def name_of(self, path: Path) -> str:
        """Return a file as the repository calls it."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else path.name

    def file(self, path: Path) -> None:
        """Read a file, and those that it names."""
        if not path.is_file() or path in self.seen:
            return
        source, text = self.name_of(path), decoded(path.read_bytes())
        self.found.texts[source] = text
        if source not in self.found.kinds:
            self.found.kinds.append(source)
        for line in lines_of(text):
            replace(self, seen=self.seen | {path}).line(line, source, path.parent)

    def line(self, line: str, source: str, beside: Path) -> None:
        """Read one line for pip, of a file that lies in `beside`."""
        if other := re.match(r"(-r|--requirement|-c|--constraint)[ =]*(\S+)", line):
            self._other(other[1] in ("-c", "--constraint"), other[2], line, source, beside)
        elif line.startswith(("-e", "--editable", ".", "/", "git+", "http:", "https:", "file:")):
            if not re.fullmatch(r"(-e|--editable)?[ =]*\.(\[[\w,-]*\])?", line):
                self.found.packages.left.append((line, source, NO_HASH))
        elif re.match(r"(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)\b", line):
            self.found.add_index(line, source)
        elif not line.startswith("-"):
            self.found.packages.add(without_hashes(line), source, self.dev)

    def _other(self, constrains: bool, name: str, line: str, source: str, beside: Path) -> None:
        path = beside / name
        if "://" in name or not path.is_file() or not path.resolve().is_relative_to(self.folder.resolve()):
            self.found.packages.left.append((line, source, "no such file is here"))
        elif constrains:
            self._constraints(path)
        else:
            self.file(path)

    def _constraints(self, path: Path) -> None:
        source = self.name_of(path)
        if path in self.seen:
            return
        for line in lines_of(decoded(path.read_bytes())):
            if other := re.match(r"(-r|--requirement|-c|--constraint)[ =]*(\S+)", line):
                replace(self, seen=self.seen | {path})._other(True, other[2], line, source, path.parent)
                continue
            try:
                self.found.held.append((Requirement(without_hashes(line)), source))
            except InvalidRequirement:
                self.found.packages.left.append((line, source, "it is not a constraint that can be read"))


def say_unread(folder: Path, found: Packaging) -> None:
    """Note which requirements files ask for something that no file that was read asks for."""
    known, stems = found.names(), {Path(kind).with_suffix("") for kind in found.kinds}
    unread = []
    for path in [*every_file(folder), *elsewhere(folder)]:
        source = path.relative_to(folder)
        if str(source) in found.kinds or source.with_suffix("") in stems:
            continue
        asks = Packaging()
        Reader(folder, asks).file(path)
        more = sorted({canonicalize_name(one) for one in asks.names()} - known)
        unread += [f"{source} ({named(more, 4)})"] if more else []
    if unread:
        found.notes.append(f"not read: {named(unread, 5)}; what the image needs of that goes into requirements.in")
