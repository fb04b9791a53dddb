"""usage: scripts/weights lock | fetch [--into FOLDER] | verify [--from FOLDER] | push DESTINATION [--from FOLDER]

lock     look at what weights.toml asks for, and write size and SHA-256 of each file to weights.lock
fetch    bring the files of weights.lock into the cache, or to FOLDER, which a container may mount
verify   read every byte that is here, or in FOLDER, and hold it to weights.lock
push     bring them to oci://HOST/REPOSITORY:TAG, s3://BUCKET/PATH, gs://BUCKET/PATH or a folder; FOLDER is where a
         training left them

Exit codes: 0 done, 1 refused, 2 wrong use, 3 a source, a registry or a disk does not answer.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from . import fetching, packing, wanted
from .cache import Cache, default_root, linked
from .lockfile import LOCK, File, Lock, misses, parsed, read, sha256_of, write
from .problems import AWAY, WRONG_USE, Interrupted, WeightsError
from .progress import Progress, amount, say
from .registry import Registry, split
from .sources.bucket import Bucket
from .sources.web import BLOCK
from .using import FOLDER


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    try:
        options = _parser().parse_args(arguments)
        options.action(options)
    except WeightsError as error:
        say(str(error))
        return error.code
    except Interrupted as error:
        say(f"{error}: the same command goes on where it ended")
        return AWAY
    except KeyboardInterrupt:
        say("stopped; the same command goes on where it ended")
        return 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"{place}{error.strerror or error}; the same command goes on where it ended")
        return AWAY
    return 0


def _parser() -> argparse.ArgumentParser:
    text = __doc__ or ""
    parser = argparse.ArgumentParser(
        prog="scripts/weights",
        usage=text.partition("\n")[0].removeprefix("usage: "),
        description=text.partition("\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="")
    for action in (lock, fetch, verify, push):
        command = commands.add_parser(action.__name__)
        command.set_defaults(action=action)
        command.add_argument("--lock", type=Path, default=Path(LOCK), help="the lock (default: %(default)s)")
        if action is fetch:
            command.add_argument("--into", type=Path, metavar="FOLDER", help="a folder to fill, instead of the cache")
            command.add_argument("--print", action="store_true", help="say on stdout which folder holds them")
            command.add_argument("--lock-only", action="store_true", help="a folder with the lock alone, for an image")
        if action is push:
            command.add_argument("destination")
        if action in (push, verify):
            command.add_argument("--from", dest="folder", type=Path, metavar="FOLDER", help="where they are")
    return parser


def lock(options: argparse.Namespace) -> None:
    """Write the lock file, after every byte was looked at; the model can be loaded then, without a fetch."""
    root, cache = options.lock.absolute().parent, Cache(default_root())
    found = fetching.lock(wanted.read(root / wanted.WANTED), cache, root)
    before = options.lock.read_text(encoding="utf-8") if options.lock.is_file() else ""
    if misses(root / FOLDER, found):
        fetching.fetch(found, cache, root)
    write(options.lock, found)
    for one in found.weights:
        revision = f" at {one.revision}" if one.revision else ""
        say(f"{one.name}: {len(one.files)} files, {amount(one.size)}, from {wanted.shown(one.source)}{revision}")
    say(f"{options.lock} {'is as it was' if before == found.text() else 'is new: commit it with weights.toml'}")


def fetch(options: argparse.Namespace) -> None:
    """Bring the files of the lock to this machine."""
    found = _current(options)
    root = options.lock.absolute().parent
    own = root / FOLDER
    if not (options.print or options.into or options.lock_only or misses(own, found)):
        say(f"{len(found.files())} files are in {own}")
        return
    if options.lock_only:
        cache = Cache(default_root())
        cache.make()
        place = cache.root / "locks" / found.digest.removeprefix("sha256:")
        place.mkdir(exist_ok=True)
        write(place / LOCK, found)
    elif options.into:
        place = _into(options.into, found, root)
    else:
        place = fetching.fetch(found, Cache(default_root()), root)
        say(f"{len(found.files())} files are in {place}")
    if options.print:
        print(place)


def _current(options: argparse.Namespace) -> Lock:
    """Return the lock. Raises WeightsError where weights.toml beside it asks for others by now."""
    found = read(options.lock)
    asked = options.lock.absolute().parent / wanted.WANTED
    if asked.is_file() and (reason := wanted.stale(wanted.read(asked), found)):
        raise WeightsError(f"{asked} is not what {options.lock} was written for: {reason}: run scripts/weights lock")
    return found


def _into(folder: Path, found: Lock, root: Path) -> Path:
    """Fill a folder, for example a volume; its lock comes last, and tells that all is there."""
    if (folder / LOCK).is_file() and read(folder / LOCK).digest == found.digest and not misses(folder, found):
        say(f"{folder} holds them already")
        return folder
    cache = Cache(folder / ".cache")
    fetching.fetch(found, cache, root)
    with cache.alone("|into the folder"):
        (folder / LOCK).unlink(missing_ok=True)
        for path, file in found.files().items():
            _put(cache.blob(file.sha256), folder / path)
        write(folder / LOCK, found)
    say(f"{len(found.files())} files are in {folder}")
    return folder


def _put(source: Path, target: Path) -> None:
    """Let a file be at another place too; what was there is replaced at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.new")
    temporary.unlink(missing_ok=True)
    linked(source, temporary)
    temporary.replace(target)


def verify(options: argparse.Namespace) -> None:
    """Read all files of the lock. Raises WeightsError naming those that are others."""
    found = _current(options)
    if options.folder:
        wrong = [path for path, file in found.files().items() if not _is(options.folder / path, file.sha256)]
        if wrong:
            _forget(options.folder, found, wrong)
            raise WeightsError(f"{options.folder} does not hold {', '.join(wrong[:5])} as {options.lock} says")
        say(f"{len(found.files())} files in {options.folder} are those of {options.lock}")
        return
    own, cache = options.lock.absolute().parent / FOLDER, Cache(default_root())
    if not misses(own, found):
        place, wrong = own, [path for path, file in found.files().items() if sha256_of(own / path) != file.sha256]
    else:
        place, wrong = cache.root, cache.damaged(found)
    if wrong:
        some = ", ".join(wrong[:5])
        raise WeightsError(
            f"{len(wrong)} of {len(found.files())} files in {place} are not those of the lock: {some}; "
            + _help(place, own)
        )
    say(f"{len(found.files())} files in {place} are those of {options.lock}")


def _forget(folder: Path, found: Lock, wrong: list[str]) -> None:
    """Let the next `fetch --into` bring what is wrong in a folder that an earlier one filled."""
    cache = Cache(folder / ".cache")
    if not cache.root.is_dir():
        return
    with contextlib.suppress(OSError):  # a volume that is mounted to read
        cache.damaged(found)  # the same files, by a link
        for path in wrong:
            (folder / path).unlink(missing_ok=True)


def _is(place: Path, sha256: str) -> bool:
    return place.is_file() and sha256_of(place) == sha256


def _help(place: Path, own: Path) -> str:
    return (
        "git brings them back, or scripts/weights lock takes them"
        if place == own
        else "scripts/weights fetch brings them"
    )


def push(options: argparse.Namespace) -> None:
    """Bring weights to where a service can name them, and say what to write there."""
    if options.folder:
        found, place = read(options.folder / LOCK), options.folder
        if missing := misses(place, found):
            raise WeightsError(f"{place} does not hold {missing} as its lock says")
    else:
        found = read(options.lock)
        place = fetching.fetch(found, Cache(default_root()), options.lock.absolute().parent)
    source, revision, sent = _pushed(options.destination, place, found)
    whole = amount(sum(file.size for file in found.files().values()))
    say(f"{wanted.shown(options.destination)} holds {len(found.files())} files, {whole}; {amount(sent)} went there")
    for one in found.weights:
        print(f'[{one.name}]\nsource = "{source}"' + (f'\nrevision = "{revision}"' if revision else ""))


def _pushed(destination: str, place: Path, found: Lock) -> tuple[str, str, int]:
    """Return what to call it, at which revision, and how many bytes went there."""
    scheme, _, rest = destination.partition("://")
    if scheme == "oci":
        host, repository, tag = split(rest)
        digest, sent = packing.push(place, found, Registry(host, repository, push=True), tag)
        return f"oci://{host}/{repository}", digest, sent
    if scheme in ("s3", "gs"):
        return wanted.without_login(destination), "", _copy(place, found, Bucket(destination))
    if "://" in destination or destination.startswith("pypi:"):
        raise WeightsError(f"{wanted.shown(destination)}: weights go to oci://, s3://, gs:// or a folder", WRONG_USE)
    target = Path(destination).absolute()
    (target / LOCK).unlink(missing_ok=True)  # it tells that all is there
    for path in found.files():
        _put(place / path, target / path)
    write(target / LOCK, found)
    return str(target), "", sum(file.size for file in found.files().values())


def _copy(place: Path, found: Lock, bucket: Bucket) -> int:
    """Write what is not there by the lock that is there; the new one comes last. Return the bytes written."""
    there = _pushed_before(bucket)
    if there != found.files():
        bucket.remove(LOCK)
    progress, sent = Progress(sum(file.size for file in found.files().values())), 0
    for path, file in found.files().items():
        progress.file(path)
        if there.get(path) == file and bucket.has(path, file.size):
            progress.add(file.size)
            continue
        with (place / path).open("rb") as content:
            bucket.write(path, iter(lambda: content.read(BLOCK), b""))
        progress.add(file.size)
        sent += file.size
    bucket.write(LOCK, iter([found.text().encode()]))
    progress.close()
    return sent


def _pushed_before(bucket: Bucket) -> dict[str, File]:
    """Return the files of the lock in a bucket: a size alone does not tell one training from the next."""
    try:
        return parsed(b"".join(bucket.read(LOCK, 0)).decode(), LOCK).files()
    except (WeightsError, UnicodeDecodeError):
        return {}


if __name__ == "__main__":
    sys.exit(main())
