"""Putting installed files into the environment so that a kill at any moment leaves what was there before.

pip installs below a folder beside the environment's own. From there each file is renamed to its place. A journal says
which; as long as it exists the installation is unfinished, and the next run takes it back. Whether a file was moved
already is told by the file itself: renaming is one step.
"""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from .image import WORKING_FOLDER, Image
from .problem import FAILED, stop


class Placing:
    """One installation into the environment of an image, with its way back."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.folder = image.environment / WORKING_FOLDER
        self.staged, self.replaced = self.folder / "staged", self.folder / "replaced"
        self.journal = self.folder / "journal.json"

    def begin(self) -> Path:
        """Take back what an earlier run left unfinished; return the root that pip installs below."""
        self.take_back()
        self.staged.mkdir(parents=True)
        return self.staged

    def place(self, outdated: Iterable[Path]) -> None:
        """Move the outdated files away and the staged ones to their places. Raises Problem where pip strayed."""
        root = self.staged.joinpath(*self.image.environment.parts[1:])
        new = [path for path in self.staged.rglob("*") if path.is_symlink() or not path.is_dir()]
        if strays := [path for path in new if root not in path.parents]:
            stop(
                f"pip would have written outside {self.image.environment}: /{strays[0].relative_to(self.staged)}",
                FAILED,
            )
        if not new:
            stop("pip installed nothing where it was told to; is there a `target` in its configuration?", FAILED)
        goals = {path: self.image.environment / path.relative_to(root) for path in new}
        # What is left is equal to the base's own file (wheels.py): the base keeps its.
        goals = {path: goal for path, goal in goals.items() if not self.image.is_base_file(goal)}
        gone = [path for path in {*outdated, *goals.values()} if path.exists() or path.is_symlink()]
        moves = [[str(path), str(self.replaced / str(number))] for number, path in enumerate(sorted(gone))]
        moves += [[str(path), str(goal)] for path, goal in sorted(goals.items())]
        self._write(moves)
        self.replaced.mkdir()
        for source, goal in moves:
            Path(goal).parent.mkdir(parents=True, exist_ok=True)
            os.rename(source, goal)
        self._drop_empty(self.image.packages)

    def finish(self) -> None:
        """Make the installation final: from here on there is no way back."""
        self.journal.unlink()
        shutil.rmtree(self.folder)

    def take_back(self) -> None:
        """Undo what is unfinished, if anything: every file is where it was before."""
        if self.journal.exists():
            for source, goal in reversed(json.loads(self.journal.read_text())):
                moved = not (Path(source).exists() or Path(source).is_symlink())
                if moved and (Path(goal).exists() or Path(goal).is_symlink()):
                    Path(source).parent.mkdir(parents=True, exist_ok=True)
                    os.rename(goal, source)
            self._drop_empty(self.image.packages)
            self.journal.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, moves: list[list[str]]) -> None:
        """Write the journal in one step."""
        draft = self.journal.with_suffix(".draft")
        with draft.open("w") as file:
            json.dump(moves, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, self.journal)

    def _drop_empty(self, root: Path) -> None:
        """Remove folders that hold nothing any more; the base has none."""
        for folder, _, _ in os.walk(root, topdown=False):
            if folder != str(root) and not any(os.scandir(folder)):
                os.rmdir(folder)
