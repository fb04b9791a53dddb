"""What scripts/weights does; its first comment says how it is used.

Exit codes: 0 done, 1 refused, 2 wrong use, 3 a source, a registry or a disk does not answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from . import push as pushing
from . import store, wanted
from .lockfile import LOCK, Lock, misses, read, write
from .problems import AWAY, WeightsError, say
from .using import FOLDER


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    try:
        options = _parser().parse_args(arguments)
        options.action(options)
    except WeightsError as error:
        say(str(error))
        return error.code
    except KeyboardInterrupt:
        say("stopped; the same command continues where it ended")
        return 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"{place}{error.strerror or error}; the same command continues where it ended")
        return AWAY
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/weights")
    commands = parser.add_subparsers(required=True, metavar="")
    for action in (lock, fetch, verify, push):
        command = commands.add_parser(action.__name__)
        command.set_defaults(action=action)
        command.add_argument("--lock", type=Path, default=Path(LOCK), help="the lock (default: %(default)s)")
        if action is fetch:
            command.add_argument("--into", type=Path, metavar="FOLDER", help="a folder to fill, instead of the cache")
            command.add_argument("--print", action="store_true", help="print the folder on stdout")
            command.add_argument("--lock-only", action="store_true", help="a folder with the lock alone, for an image")
        if action is push:
            command.add_argument("destination")
        if action in (push, verify):
            command.add_argument("--from", dest="folder", type=Path, metavar="FOLDER", help="where they are")
    return parser


def lock(options: argparse.Namespace) -> None:
    """Write the lock file after every byte was read."""
    root = options.lock.absolute().parent
    found = store.lock(wanted.read(root / wanted.WANTED), root)
    before = options.lock.read_text(encoding="utf-8") if options.lock.is_file() else ""
    write(options.lock, found)
    for one in found.weights:
        revision = f" at {one.revision}" if one.revision else ""
        say(f"{one.name}: {len(one.files)} files, {one.size / 1e6:,.1f} MB, from {wanted.shown(one.source)}{revision}")
    say(f"{options.lock} " + {found.text(): "is as it was", "": "is new: commit it"}.get(before, "changed: commit it"))


def fetch(options: argparse.Namespace) -> None:
    """Bring the files of the lock to this machine."""
    found = _current(options)
    root = options.lock.absolute().parent
    place = options.into or store.place_of(found)
    if options.lock_only:
        place = store.cache() / "locks" / found.digest.removeprefix("sha256:")
        place.mkdir(parents=True, exist_ok=True)
        write(place / LOCK, found)
    elif not (options.print or options.into or misses(root / FOLDER, found)):
        place = root / FOLDER
    else:
        store.fill(place, found, root)
    say(f"{len(found.files())} files are in {place}")
    if options.print:
        print(place)


def _current(options: argparse.Namespace) -> Lock:
    """Return the lock. Raises WeightsError where weights.toml beside it asks for others by now."""
    found = read(options.lock)
    if name := wanted.stale(options.lock.absolute().parent, found):
        raise WeightsError(f"{options.lock} is out of date: [{name}] was changed: run scripts/weights lock")
    return found


def verify(options: argparse.Namespace) -> None:
    """Read all files of the lock. Raises WeightsError naming those that are others."""
    found = _current(options)
    own = options.lock.absolute().parent / FOLDER
    in_git = not options.folder and not misses(own, found)
    place = options.folder or (own if in_git else store.place_of(found))
    if wrong := store.damaged(place, found):
        if not in_git:
            with suppress(OSError):  # a volume that is mounted to read
                (place / LOCK).unlink()  # so that the next fetch reads every byte
        mend = "git restore weights, or scripts/weights lock" if in_git else "run scripts/weights fetch again"
        some = f"{len(wrong)} of {len(found.files())} files in {place} are not those of the lock"
        raise WeightsError(f"{some}: {', '.join(wrong[:5])}: {mend}")
    say(f"{len(found.files())} files in {place} are those of {options.lock}")


def push(options: argparse.Namespace) -> None:
    """Bring weights to where a service can name them, and say what to write there."""
    if options.folder:
        found, place = read(options.folder / LOCK), options.folder
        if missing := misses(place, found):
            raise WeightsError(f"{place} does not have {missing} as its lock says")
    else:
        found = read(options.lock)
        place = store.place_of(found)
        store.fill(place, found, options.lock.absolute().parent)
    source, revision = pushing.push(place, found, options.destination)
    say(f"{wanted.shown(source)} has {len(found.files())} files")
    for one in found.weights:
        print(f'[{one.name}]\nsource = "{source}"' + (f'\nrevision = "{revision}"' if revision else ""))
