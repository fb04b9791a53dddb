"""Archives that pyarrow takes for broken and gzip does not."""

import gzip
import zlib
from typing import Any, Self


class Gunzipped:
    """The content of a gzip file, behind which zeros may follow. What is wrong with it is an OSError, as of pyarrow."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._content = gzip.GzipFile(fileobj=stream, mode="rb")

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`, none at the end."""
        try:
            return self._content.read(size)
        except (EOFError, zlib.error) as error:
            raise OSError(str(error)) from None

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
