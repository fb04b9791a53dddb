"""How much of a child is the template's and how much its owner's: python -m tests.templates.sizes CHILD..."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from gpu_repo_runtime.update.ownership import owners_in

from tests.templates.checks import files_of

NOT_WRITTEN = (".lock", "constraints.txt", ".whl", ".npz", "LICENSE", "dashboard.json")  # resolved, built, drawn, legal


@dataclass(frozen=True)
class Size:
    """Files and lines that the template keeps, and lines of the owner, without locks, wheel and dashboard.

    constraints.txt is a lock too: that of the image.
    """

    files: int
    lines: int
    own: int

    @property
    def share(self) -> float:
        """Return the owner's share of all lines."""
        return self.own / (self.own + self.lines)


def size_of(child: Path) -> Size:
    """Count a rendered child."""
    owned = owners_in(child)
    counted = {p.relative_to(child).as_posix(): p for p in files_of(child) if not p.name.endswith(NOT_WRITTEN)}
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in counted.items()}
    seeds = {name for name in lines if owned.of(name) == "seed"}
    kept = lines.keys() - seeds
    return Size(len(kept), sum(lines[name] for name in kept), sum(lines[name] for name in seeds))


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        size = size_of(Path(folder))
        print(f"{folder}: the template has {size.files} files and {size.lines} lines, ", end="")
        print(f"the owner {size.own} lines ({size.share:.0%})")
