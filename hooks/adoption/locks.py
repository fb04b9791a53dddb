"""The locks of a repository that joined: its packages under the versions of the image, and what does not fit, named."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from adoption.findings import Findings
from adoption.held_back import held_back
from adoption.packaged import EXTRA
from adoption.requirements import Fitted, fitted, loosened, versions_held
from adoption.room import UV, run_lock, settle
from adoption.source_archives import Archive, UnreadableError, read_archive, wanted_from
from adoption.texts import masked

TRIES = 30  # as many packages can be widened or left out, one after the other
WIDEN_ALL = 3  # after so many, the repository pins what was current years ago: all of it is widened
WAYS_OUT = "Ask for a version that fits, do without it, or take another image (framework=..., gpu_driver=...)"
HEAD = {
    "": "# What scripts/lock resolves under the versions of the base image. It is yours: add, change and drop lines.\n",
    "-gpu": "# What scripts/lock adds where there is a GPU (requirements-gpu.lock).\n",
    "-dev": "# The tools of development and tests, which scripts/lock resolves into requirements-dev.lock.\n",
}


@dataclass
class Locked:
    """How locking ended: `notes` name what was changed to fit, `open` what is left to a person.

    `out` has the packages that were left out, each with what a person has to know about it.
    """

    asks: bool
    notes: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    out: dict[str, str] = field(default_factory=dict)


@dataclass
class Wanted:
    """The lines of the three files; `read` are those that scripts/lock reads in pyproject.toml itself."""

    run: list[Fitted]
    gpu: list[Fitted]
    dev: list[Fitted]
    out: list[tuple[str, str]] = field(default_factory=list)  # text, reason
    read: list[Fitted] = field(default_factory=list)


def wanted_of(render: Path, pyproject: str, findings: Findings, image: str) -> tuple[Wanted, bool]:
    """Return the packages to lock, and whether pyproject.toml can be read by scripts/lock itself."""
    held = versions_held((render / "constraints.txt").read_text(encoding="utf-8"))
    ours = tomllib.loads(pyproject)
    packages = findings.packaging.packages
    theirs = [fitted(asked, held, image) for asked in packages.run]
    asks = findings.packaging.static and not any(line.note for line in theirs)
    names = packages.names()
    run = [line for line in theirs if EXTRA in line.source] if asks else theirs
    run += [Fitted(t, "the template") for t in ours["project"]["dependencies"] if _name(t) not in names]
    gpu = [Fitted(t, "the template") for t in ours["project"].get("optional-dependencies", {}).get("gpu", [])]
    tools = ours["dependency-groups"]["dev"]
    dev = [Fitted(text, "the template") for text in tools]
    mine = {_name(text) for text in tools} | names | set(held)
    dev += [fitted(asked, held, image) for asked in packages.dev if asked.name not in mine]
    out = [(text, f"{source}: {reason}") for text, source, reason in packages.left]
    return Wanted(run, gpu, dev, out, theirs if asks else []), asks


def _name(text: str) -> str:
    return canonicalize_name(Requirement(text).name)


def write_inputs(clone: Path, prefix: str, wanted: Wanted) -> list[str]:
    """Write the files that scripts/lock reads; return their names."""
    written = []
    for end, lines in (("", wanted.run), ("-gpu", wanted.gpu), ("-dev", wanted.dev)):
        if end == "-gpu" and not lines:
            continue
        text, source = HEAD[end], ""
        for line in lines:
            if line.source != source:
                source = line.source
                text += f"\n# from {source}\n"
            text += (f"# {line.note}\n" if line.note else "") + f"{line.text}\n"
        if end == "" and wanted.out:
            text += "\n# left out\n" + "".join(
                f"# {' '.join(out.split())}  ({' '.join(reason.split())})\n" for out, reason in wanted.out
            )
        (clone / f"{prefix}{end}.in").write_text(masked(text), encoding="utf-8")
        written.append(f"{prefix}{end}.in")
    return written


ABSENT = (  # the package itself cannot be had, whatever its version
    r"Failed to (?:download and )?build `([\w.-]+)", r"[Ff]ailed to (?:read|fetch|parse)[^`]*`([\w.-]+)",
    r"Because ([\w.-]+) was not found", r"there (?:is|are) no versions? of ([\w.-]+)",
    r"Because ([\w.-]+)\S* has no wheels",
)  # fmt: skip
MENTIONED = (r"you require ([\w.-]+)", r"only ([\w.-]+)[<>=\[{]", r"\b([\w.-]+)[<>=!]=", r"`([\w.-]+)")


def culprit(message: str, names: list[str], bounded: set[str]) -> str:
    """Return the package among `names` that a message of uv is about, "" where it names none of them.

    Two packages that do not go together are both named: the one with an upper bound or a pin (`bounded`) gives way.
    """
    plain = re.sub(r"\s+", " ", message)
    for patterns, known in ((ABSENT, set(names)), (MENTIONED, bounded), (MENTIONED, set(names))):
        for pattern in patterns:
            for found in re.finditer(pattern, plain):
                if canonicalize_name(found[1]) in known:
                    return canonicalize_name(found[1])
    return ""


def reason_of(message: str) -> str:
    """Return the sentence of uv that tells why, on one line."""
    text = re.sub(r"[╰─▶×│├]+", " ", message)
    text = re.sub(r"\s+", " ", text.split("hint:")[0]).strip()
    found = re.search(
        r"(Because .*?(?:unsatisfiable|cannot be used|conclude that .*?)\.(?=\s|$)|Failed to .*?\.(?=\s|$))", text
    )
    return (found[1] if found else text)[:400]


def resolve(room: Path, prefix: str, wanted: Wanted, asks: bool, image: str) -> Locked:
    """Lock the packages; what does not fit is loosened first and left out at last, and each is named."""
    result = Locked(asks, [line.note for line in wanted.run + wanted.dev if line.note])
    archives, unreadable = dict[str, Archive](), dict[str, str]()
    tries = 0
    for _ in range(2 * TRIES):
        write_inputs(room, prefix, wanted)
        message = run_lock(room)
        if not message:
            if not _without_old(room, wanted, result, prefix, image):
                break
            continue
        if read_archives(room, message, archives, unreadable):
            continue
        if result.asks:
            return Locked(False, open=[reason_of(message)])  # the caller writes all packages down and tries again
        lines = [line for line in [*wanted.run, *wanted.dev] if line.source != "the template"]
        theirs = {_name(line.text) for line in lines}
        bounded = {_name(line.text) for line in lines if _loose(line) != line}
        guilty = culprit(message, sorted(theirs), bounded)
        if not guilty:
            result.open.append(f"scripts/lock cannot resolve the packages: {reason_of(message)}")
            return result
        widened, tries = theirs if tries == WIDEN_ALL else {guilty}, tries + 1
        before = [line.text for line in [*wanted.run, *wanted.dev]]
        for group in (wanted.run, wanted.dev):
            group[:] = [_loose(line) if _name(line.text) in widened else line for line in group]
        if before == [line.text for line in [*wanted.run, *wanted.dev]]:
            reason = unreadable.get(guilty) or next(
                (f"{name}: {why}." for name, why in unreadable.items() if name in message), reason_of(message)
            )
            result.out[guilty] = leave_out(wanted, guilty, reason, prefix, image)
    else:
        result.open.append(
            "scripts/lock cannot resolve the packages: see the files that it reads, and take out what is old"
        )
    result.notes += [line.note for line in wanted.run + wanted.dev if line.note and line.note not in result.notes]
    locked = "\n".join(path.read_text(encoding="utf-8") for path in room.glob("requirements*.lock"))
    result.notes += [
        f"{one.name} {one.version} has no wheel: pip builds it from its source"
        for one in archives.values()
        if f"{one.name}=={one.version}" in locked  # what was left out is not built
    ]
    return result


def _without_old(room: Path, wanted: Wanted, result: Locked, prefix: str, image: str) -> bool:
    """Leave out the tools that are locked far back, and name what else is; return whether to lock once more."""
    theirs = [line for line in [*wanted.run, *wanted.dev, *wanted.read] if line.source != "the template"]
    constraints = room / "constraints.txt"
    held = versions_held(constraints.read_text(encoding="utf-8")) if constraints.exists() else {}
    old = held_back(room, [line.text for line in theirs], set(held))
    tools = {_name(line.text) for line in wanted.dev if line.source != "the template"}
    for name, (version, newest) in old.items():
        said = f"the newest that goes with the rest is {name} {version}, years older than {newest}."
        if name in tools:
            result.out[name] = leave_out(wanted, name, said, prefix, image)
        elif not any(said in note for note in result.notes):
            result.notes.append(f"{name} is locked far back: {said} Try what it is for")
    return bool(tools & set(old))


def read_archives(room: Path, message: str, known: dict[str, Archive], unreadable: dict[str, str]) -> bool:
    """Read the source archives of packages that uv found no wheel of; return whether another one can be locked now."""
    before = len(known)
    for asked in wanted_from(message):
        name = _name(asked)
        if name in known or asked in unreadable:
            continue
        try:
            known[name] = read_archive(UV, asked)
        except UnreadableError as error:
            unreadable[asked] = unreadable[name] = str(error)
    settle(room, list(known.values()))
    return len(known) > before


def leave_out(wanted: Wanted, name: str, reason: str, prefix: str, image: str) -> str:
    """Take a package out of what is to be locked; return what a person has to know about it."""
    line = next(line for line in [*wanted.run, *wanted.dev] if _name(line.text) == name)
    file = f"{prefix}.in" if line in wanted.run else f"{prefix}-dev.in"
    for group in (wanted.run, wanted.dev):
        group[:] = [other for other in group if _name(other.text) != name]
    wanted.out.append((line.text, f"{line.source}: {reason}"))
    return f"{line.text} ({line.source}) is left out of {file}, it does not fit the image {image}: {reason} {WAYS_OUT}"


def _loose(line: Fitted) -> Fitted:
    if line.source == "the template" or line.note:
        return line
    text = loosened(line.text)
    return (
        line
        if text == line.text
        else Fitted(text, line.source, f"{line.source} asks for {line.text}, which was widened so that all fits")
    )
