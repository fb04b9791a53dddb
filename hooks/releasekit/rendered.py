"""What must not be in a rendered child, and what its files ask of the machines that check it out."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import yaml
from gpu_repo_runtime.update.outcome import files_under
from gpu_repo_runtime.update.ownership import OWNERSHIP, owners_in
from pathspec import GitIgnoreSpec

from releasekit import locks, parsed

MARKER = re.compile(r"(?m)^(<{7}|>{7}|\|{7})( |$)")
ODD_NAME = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ](/|$)|(?i:(^|/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|/|$))')
SECRET = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
FIRST_ON_PATH = ("", "src", "scripts", "scripts/tools", "tests", "tests/gpu")  # where Python looks before its own


def faults(child: Path, asked: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Give path and fault of each file that no child should get; `asked` are the questions of the template."""
    try:
        yaml.safe_load((child / OWNERSHIP).read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass  # then no file is on a list, and each is named
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        yield OWNERSHIP, f"cannot be read: {error}"
    owners, paths = owners_in(child), sorted(files_under(child))
    yield from of_names(child, paths)
    for path in paths:
        on = [owner for owner, spec in owners.specs.items() if spec.match_file(path)]
        if len(on) != 1:
            yield path, "is on both lists" if on else "is on neither list of templates/ownership.yml"
        place = child / path
        if place.is_symlink():
            yield path, "is a link: not every system can check it out"
            continue
        data = place.read_bytes()
        yield from ((path, fault) for fault in of_text(path, data, asked))
        if data.startswith(b"#!") and not os.access(place, os.X_OK):
            yield path, "is a script that cannot be executed: git update-index --chmod=+x"
        if locks.is_lock(path):
            yield from ((path, fault) for fault in locks.faults(child, data.decode(errors="replace")))


def of_names(child: Path, paths: list[str]) -> Iterator[tuple[str, str]]:
    """Give what is wrong with the names of the files."""
    names: dict[str, str] = {}
    place = child / ".gitignore"
    ignored = GitIgnoreSpec.from_lines(place.read_text(errors="replace").splitlines() if place.is_file() else [])
    for path in paths:
        if ODD_NAME.search(path):
            yield path, "has a name that Windows cannot check out"
        if names.setdefault(path.lower(), path) != path:
            yield path, f"differs from {names[path.lower()]} in capitals only: not every system can check it out"
        if ignored.match_file(path):
            yield path, "is ignored by the child's .gitignore: its owner would not commit it"
        pure = PurePosixPath(path)
        if pure.suffix == ".py" and str(pure.parent).strip(".") in FIRST_ON_PATH and hides(pure.stem):
            yield path, f"hides the module {pure.stem} of Python's standard library"
    wheels = Counter(PurePosixPath(path).name.split("-")[0] for path in paths if path.endswith(".whl"))
    yield from ((f"wheels/{name}-*.whl", "is there more than once") for name, count in wheels.items() if count > 1)


def hides(module: str) -> bool:
    """Tell whether a module of this name stands before one of Python's own."""
    return module in sys.stdlib_module_names and not module.startswith("__")


def of_text(path: str, data: bytes, asked: tuple[str, ...]) -> Iterator[str]:
    """Give what is wrong with the bytes of a file; other binary files than UTF-16 are taken as they are."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield "is in UTF-16: write it in UTF-8"
        return
    if b"\0" in data:
        return
    text = data.decode("utf-8", errors="replace")
    if "\ufffd" in text and "\ufffd".encode() not in data:
        yield "is not UTF-8"
    if text.startswith("\ufeff"):
        yield "begins with a byte order mark, which shells and other programs do not read"
    if "\r\n" in text:
        yield "has the line ends of Windows: shells do not read them"
    if SECRET.search(text):
        yield "holds a private key"
    left = re.search(r"\{%-? *(?:if|for|set|include|endif|endfor)\b|(?<!\$)\{\{ *(?:" + "|".join(asked) + r")\b", text)
    if asked and left:
        yield f"has {left[0]!r} of the template left in it"
    if MARKER.search(text):
        yield "has conflict markers"
    elif said := parsed.fault(path, text):
        yield said
