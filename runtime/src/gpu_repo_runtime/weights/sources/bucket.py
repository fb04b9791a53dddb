"""Objects of S3 and Google Cloud Storage, through pyarrow, which finds the credentials as their own tools do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..problems import AWAY, WRONG_USE, Interrupted, WeightsError
from ..wanted import shown
from .web import BLOCK

MISSING = (
    "{address}: s3:// and gs:// need pyarrow, which is not here: add it to the dependencies in pyproject.toml, "
    "then scripts/lock and scripts/setup"
)


class Bucket:
    """Objects below an address; also a place to bring weights to."""

    revision = ""

    def __init__(self, address: str) -> None:
        try:
            from pyarrow import fs
        except ImportError:
            raise WeightsError(MISSING.format(address=shown(address)), WRONG_USE) from None
        try:
            self._filesystem, root = fs.FileSystem.from_uri(address)
        except (OSError, ValueError) as error:
            raise WeightsError(f"{shown(address)}: {_words(error)}", WRONG_USE) from None
        self._fs: Any = fs
        self._root, self._address = root.rstrip("/"), shown(address)

    def listing(self) -> dict[str, int | None]:
        """Return the objects by their paths, with their sizes. Raises WeightsError."""
        selector = self._fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        try:
            found = self._filesystem.get_file_info(selector)
        except OSError as error:
            raise WeightsError(f"{self._address} cannot be listed: {_words(error)}", AWAY) from None
        files = {one.path.removeprefix(f"{self._root}/"): one.size for one in found if one.is_file}
        if not files:
            raise WeightsError(f"{self._address} holds no objects, or may not be listed", AWAY)
        return files

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of an object from `start` on."""
        try:
            with self._filesystem.open_input_file(f"{self._root}/{path}") as file:
                file.seek(start)
                while block := file.read(BLOCK):
                    yield block
        except FileNotFoundError:
            raise WeightsError(f"{self._address}/{path} is not there", AWAY) from None
        except OSError as error:
            raise Interrupted(f"{self._address}/{path}: {_words(error)}") from None

    def has(self, path: str, size: int) -> bool:
        """Tell whether an object of this size is there."""
        info = self._filesystem.get_file_info(f"{self._root}/{path}")
        return bool(info.is_file and info.size == size)

    def remove(self, path: str) -> None:
        """Remove an object that may be there. Raises WeightsError."""
        try:
            self._filesystem.delete_file(f"{self._root}/{path}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise WeightsError(f"{self._address}/{path} was not removed: {_words(error)}", AWAY) from None

    def write(self, path: str, blocks: Iterator[bytes]) -> None:
        """Write an object; it appears when all of it is there. Raises WeightsError."""
        place = f"{self._root}/{path}"
        try:
            self._filesystem.create_dir(place.rpartition("/")[0], recursive=True)
            with self._filesystem.open_output_stream(place) as stream:
                for block in blocks:
                    stream.write(block)
        except OSError as error:
            raise WeightsError(f"{self._address}/{path} was not written: {_words(error)}", AWAY) from None


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
