"""The output folder: every file appears whole or not at all, on a disk or in an object store."""

import contextlib
import hashlib
import os
import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyarrow import fs

from .exits import BadConfiguration
from .inputs import open_filesystem

DATA = "data"
WAITING = "_parts"
TEMPORARY = "_tmp"
RECORDS = "_records"
SUCCESS = "_SUCCESS"


class FinishedElsewhere(Exception):
    """Another worker has published the result while this one was writing a part of it."""


def open_store(location: str, make: bool = True) -> "DiskStore | ObjectStore":
    """Return the store of an output folder; a folder on a disk is made unless `make` is False.

    Raises BadConfiguration when it cannot be made, or is not there.
    """
    filesystem, path = open_filesystem(location)
    if not isinstance(filesystem, fs.LocalFileSystem):
        return ObjectStore(filesystem, path)
    if Path(path).exists() and os.path.samefile(path, "/"):
        raise BadConfiguration(f"the output {location} is the root of the disk (is a variable empty?): name a folder")
    if not make and not Path(path).is_dir():
        raise BadConfiguration(f"there is no folder {location}")
    try:
        if make:
            Path(path).mkdir(parents=True, exist_ok=True)
        return DiskStore(Path(path))
    except (FileExistsError, NotADirectoryError):
        raise BadConfiguration(f"the output {location} is a file; it has to be a folder") from None
    except (FileNotFoundError, PermissionError) as error:
        raise BadConfiguration(f"the output folder {location} cannot be made: {error}") from None


class DiskStore:
    """A folder on a disk. Parts wait in `_parts` and become `data` by one rename when the job is done."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # Those that are there. Parts' folders are never made again: one that is gone says that the result is published.
        self._folders = {WAITING, DATA}
        self.parts = DATA if self._published() else WAITING

    def prepare(self, for_parts: bool = True) -> None:
        """Make the folders to write in, when it is clear that something will be written; not in a complete output.

        for_parts: whether there will be parts at all.
        """
        if not (self.root / SUCCESS).exists():
            if (self.root / WAITING).is_dir():
                # Somebody has made a folder where the parts are to be; one with files in it is refused at the end.
                with contextlib.suppress(OSError):
                    (self.root / DATA).rmdir()
            # Another worker may have published since this one has opened the folder.
            self.parts = DATA if self._published() else WAITING
            self._make((TEMPORARY, self.parts) if for_parts else (TEMPORARY,))

    def _make(self, folders: tuple[str, ...]) -> None:
        for name in folders:
            (self.root / name).mkdir(parents=True, exist_ok=True)

    def _published(self) -> bool:
        return (self.root / DATA).is_dir()

    def write(self, name: str, content: bytes | pa.Buffer, *, lasting: bool = True) -> None:
        """Write a file and bring it to the disk before it gets its name. Raises FinishedElsewhere.

        lasting: whether it has to outlive a failure of the power. A kill never costs it.
        """
        folder, _, own = name.rpartition("/")
        # Twice for each part, so without paths as objects and files with a buffer: they take longer than the disk does.
        temporary = f"{self.root}/{TEMPORARY}/{uuid.uuid4().hex}-{own}"
        try:
            self._make_folder(folder)
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(file, rest) :]
                if lasting:
                    os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, f"{self.root}/{name}")
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            if isinstance(error, FileNotFoundError) and self._published():
                raise FinishedElsewhere from None
            raise

    def _make_folder(self, folder: str) -> None:
        """Make a folder in the output, but not that of the parts."""
        if folder and folder not in self._folders:
            self._make_folder(folder.rpartition("/")[0])
            (self.root / folder).mkdir(exist_ok=True)
            self._folders.add(folder)

    def create(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists already; tell whether it was written."""
        if (self.root / name).exists():
            return False
        temporary = self.root / TEMPORARY / uuid.uuid4().hex
        temporary.write_bytes(content)
        try:
            os.link(temporary, self.root / name)
        except FileExistsError:
            return False
        except OSError:
            # A disk without hard links: of two workers that start at the same moment the last one wins.
            self.write(name, content)
        finally:
            temporary.unlink()
        return True

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None where there is none."""
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def checksum(self, name: str) -> str:
        """Return the SHA-256 of a file, "" where there is none; a block at a time is in memory."""
        try:
            with (self.root / name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            return ""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the names of the files in a folder and their bytes."""
        try:
            with os.scandir(self.root / folder) as entries:
                return {entry.name: entry.stat().st_size for entry in entries}
        except FileNotFoundError:
            return {}

    def sizes_of_parts(self) -> dict[str, int]:
        """Return the paths of the parts' files in their folder and their bytes, also while another worker publishes."""
        # In this order: what the rename takes away in between is in the second one.
        return self._below(WAITING) | self._below(DATA)

    def _below(self, folder: str) -> dict[str, int]:
        top = self.root / folder
        found = {}
        for path, _, names in os.walk(top):
            for name in names:
                file = Path(path, name)
                with contextlib.suppress(FileNotFoundError):
                    found[file.relative_to(top).as_posix()] = file.stat().st_size
        return found

    def prepare_again(self) -> None:
        """Make the folders that a complete output has no more, to repair it."""
        self.parts = DATA if self._published() else WAITING
        self._make((TEMPORARY, self.parts, RECORDS))

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        (self.root / name).unlink(missing_ok=True)

    def publish(self) -> None:
        """Make the waiting parts the result, by one rename."""
        with contextlib.suppress(FileNotFoundError):
            (self.root / WAITING).rename(self.root / DATA)
        self.parts = DATA
        folder = os.open(self.root, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def tidy(self, folder: str) -> None:
        """Delete a folder of files that nobody needs any more."""
        shutil.rmtree(self.root / folder, ignore_errors=True)


class ObjectStore:
    """A place in an object store. An object appears when its upload ends; nothing can be renamed there.

    So the parts are in `data` from the beginning, and `_SUCCESS` alone tells readers that all of them are there.
    """

    parts = DATA

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self.filesystem = filesystem
        self.root = root.rstrip("/")

    def write(self, name: str, content: bytes | pa.Buffer, *, lasting: bool = True) -> None:
        """Write an object; each of them lasts."""
        path = f"{self.root}/{name}"
        self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        with self.filesystem.open_output_stream(path) as stream:
            stream.write(content)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless it exists already; of two workers at the same moment the last one wins."""
        if self.read(name) is not None:
            return False
        self.write(name, content)
        return True

    def read(self, name: str) -> bytes | None:
        """Return the content of an object, None where there is none."""
        try:
            with self.filesystem.open_input_stream(f"{self.root}/{name}") as stream:
                content: bytes = stream.read()
                return content
        except FileNotFoundError:
            return None

    def checksum(self, name: str) -> str:
        """Return the SHA-256 of an object, "" where there is none; a block at a time is in memory."""
        try:
            with self.filesystem.open_input_stream(f"{self.root}/{name}") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError:
            return ""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the names of the objects in a folder and their bytes."""
        selector = fs.FileSelector(f"{self.root}/{folder}", allow_not_found=True)
        found = self.filesystem.get_file_info(selector)
        return {info.base_name: info.size for info in found if info.type == fs.FileType.File}

    def sizes_of_parts(self) -> dict[str, int]:
        """Return the paths of the parts' objects below their folder, and their bytes."""
        top = f"{self.root}/{DATA}"
        found = self.filesystem.get_file_info(fs.FileSelector(top, allow_not_found=True, recursive=True))
        own = [info for info in found if info.type == fs.FileType.File]
        return {str(PurePosixPath(info.path).relative_to(top)): info.size for info in own}

    def prepare(self) -> None:
        """Do nothing: there are no folders."""

    def prepare_again(self) -> None:
        """Do nothing: there are no folders."""

    def delete(self, name: str) -> None:
        """Delete an object, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(f"{self.root}/{name}")

    def publish(self) -> None:
        """Do nothing: the parts are where they belong."""

    def tidy(self, folder: str) -> None:
        """Do nothing: another worker may be about to read it, and nothing would tell it that the end has come."""


Store = DiskStore | ObjectStore


def read_all(store: Store, folder: str, names: list[str]) -> list[bytes]:
    """Return the content of files that exist, several at a time, because each takes a while in an object store."""
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(store.read, [f"{folder}/{name}" for name in names]))
    return [content for content in found if content is not None]
