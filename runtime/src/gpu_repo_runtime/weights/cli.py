"""The commands of scripts/weights, whose first comment shows how to use it.

Exit codes: 0 done, 1 refused, 2 wrong use, 3 a source, a registry or a disk does not answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from . import store, wanted
from .lockfile import LOCK, Lock, read, write
from .problems import AWAY, WeightsError, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    try:
        options = _parser().parse_args(arguments)
        options.root = options.lock.absolute().parent
        options.action(options)
    except WeightsError as error:
        say(str(error))
        return error.code
    except KeyboardInterrupt:
        say("stopped; the same command continues after the last whole file")
        return 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"{place}{error.strerror or error}; the same command continues after the last whole file")
        return AWAY
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/weights")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for action in (lock, fetch, verify):
        command = commands.add_parser(action.__name__)
        command.set_defaults(action=action, folder=None)
        command.add_argument("--lock", type=Path, default=Path(LOCK), help="the lock (default: %(default)s)")
        if action is fetch:
            command.add_argument("--into", type=Path, metavar="FOLDER", help="a folder to fill, instead of the cache")
            command.add_argument("--print", action="store_true", help="print the folder on stdout")
            command.add_argument("--lock-only", action="store_true", help="a folder with the lock alone, for an image")
        if action is verify:
            command.add_argument("--from", dest="folder", type=Path, metavar="FOLDER", help="where they are")
    return parser


def lock(options: argparse.Namespace) -> None:
    """Write the lock file after every byte was read."""
    found = store.lock(wanted.read(options.root / wanted.WANTED), options.root)
    write(options.lock, found)
    for one in found.weights:
        size, revision = sum(file.size for file in one.files) / 1e6, one.revision and f" at {one.revision}"
        say(f"{one.name}: {len(one.files)} files, {size:,.1f} MB, from {one.source}{revision}")
    say(f"{options.lock} is written: commit it with {wanted.WANTED}")


def fetch(options: argparse.Namespace) -> None:
    """Bring the files of the lock to this machine."""
    found = _current(options)
    if not (options.into or options.print) and store.in_git(found) == found:
        return verify(options)
    place = options.into or store.place_of(found)
    if options.lock_only:
        place = store.cache() / "locks" / found.digest.removeprefix("sha256:")
        place.mkdir(parents=True, exist_ok=True)
        write(place / LOCK, found)
    else:
        store.fill(place, found, options.root)
    say(f"{len(found.files())} files are in {place}")
    if options.print:
        print(place)


def verify(options: argparse.Namespace) -> None:
    """Read every byte. Raises WeightsError naming the files that differ from the lock."""
    found = _current(options)
    place = options.folder or store.place_in(options.root, found)
    if wrong := store.damaged(place, found):
        with suppress(OSError):  # not there in git, and a volume may be read-only
            (place / LOCK).unlink()  # so that the next fetch reads every byte
        some = f"{len(wrong)} of {len(found.files())} files in {place} are missing or differ from the lock"
        mend = "run scripts/weights fetch, or scripts/weights lock if the change is intended"
        raise WeightsError(f"{some}: {', '.join(wrong[:5])}: {mend}")
    say(f"{len(found.files())} files in {place} are those of the lock")


def _current(options: argparse.Namespace) -> Lock:
    """Return the lock. Raises WeightsError if weights.toml next to it has changed since."""
    found = read(options.lock)
    wanted.check_current(options.root, found)
    return found
