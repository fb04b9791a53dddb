"""The image that packages are added to: its facts, its environment, which files are the base's."""

import json
import sys
import sysconfig
from collections.abc import Iterator
from functools import cached_property
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from .version import normal

# Where a program is found behind the environment's own folder, whatever PATH says while the image is built.
SYSTEM_PROGRAMS = [Path(folder) for folder in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")]

# Where base-install works, below the environment: no package may write there.
WORKING_FOLDER = ".base-install"


class Image:
    """A base image seen from inside. Raises FileNotFoundError where /opt/base is not that of an image."""

    def __init__(self, base: Path) -> None:
        facts = json.loads((base / "image.json").read_text())
        self.name: str = facts["name"]
        self.cuda_major = int(facts["cuda"].split(".")[0])
        self.takes: list[str] = facts.get("takes", [])
        self.environment = Path(sys.prefix)
        self.packages = Path(sysconfig.get_path("purelib"))
        self.programs = Path(sysconfig.get_path("scripts"))
        lines = (base / "constraints.txt").read_text().split()
        self.held: dict[str, str] = {
            canonicalize_name(name): normal(version) for name, version in (line.split("==") for line in lines)
        }

    def distributions(self) -> dict[str, metadata.Distribution]:
        """Return what is installed now, by normal name."""
        found = metadata.distributions(path=[str(self.packages)])
        return {canonicalize_name(entry.name): entry for entry in found if entry.name}

    def versions(self) -> dict[str, str]:
        """Return the versions that are installed now, by normal name."""
        return {name: normal(entry.version) for name, entry in self.distributions().items()}

    def files_of(self, entry: metadata.Distribution) -> Iterator[Path]:
        """Yield the files that an installed package recorded, without links followed."""
        for file in entry.files or ():
            yield Path(str(entry.locate_file(file))).parent.resolve() / file.name

    @cached_property
    def added(self) -> set[Path]:
        """The files of packages that were added to the base before: only they may be replaced.

        A file that a package of the base names too is the base's, whatever another one claims.
        """
        found = self.distributions().items()
        added, own = (
            {path for name, entry in found if (name in self.held) is held for path in self.files_of(entry)}
            for held in (False, True)
        )
        return added - own

    def is_base_file(self, path: Path) -> bool:
        """Tell whether a file is there that no added package brought."""
        return (path.exists() or path.is_symlink()) and path not in self.added

    def has_files_in(self, folder: Path) -> bool:
        """Tell whether a folder, at any depth, has files that no added package brought."""
        return folder.is_dir() and any(not path.is_dir() and self.is_base_file(path) for path in folder.rglob("*"))

    def has_file_at(self, path: Path, content: bytes) -> bool:
        """Tell whether a file of the base with just this content is there, as namespace packages have them."""
        return self.is_base_file(path) and path.is_file() and path.read_bytes() == content

    @cached_property
    def cuda_libraries(self) -> set[str]:
        """The CUDA libraries that the image has, as the start of their names: libcudart, libcublas."""
        return {path.name.split(".so")[0] for path in self.packages.glob("nvidia/**/lib*.so*")}
