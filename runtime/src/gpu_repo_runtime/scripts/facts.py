"""What the scripts know of their repository: scripts/lib.sh passes what the template knows, git says the rest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..script_error import ScriptError as ScriptError

PROOF, RESULTS = Path("build/proof"), Path("build/test-results")
PUSHED = Path("build/image.txt")  # three lines: staging@digest, the commit, the time of the push
INSIDE = Path("/opt/base/image.json")  # in a container of the image
PACKAGED = ("src", "wheels", "pyproject.toml", "Dockerfile", "weights.lock", "requirements*.lock")


@dataclass(frozen=True)
class Project:
    """A repository of the family. `verb` is the script that runs, `adopted` the answer of that name."""

    verb: str
    kind: str
    package: str
    framework: str
    row: str
    base: str
    name: str
    staged: str
    module: str
    stood: str
    gpu: bool
    adopted: dict[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()

    @property
    def base_image(self) -> str:
        """Return the image that this one stands on, BASE_IMAGE before that of the template."""
        return os.environ.get("BASE_IMAGE") or self.base

    @property
    def image(self) -> str:
        """Return the name and tag of the image: IMAGE, or the project's with the tag dev."""
        return os.environ.get("IMAGE") or f"{self.name}:dev"

    @property
    def repository(self) -> str:
        """Return the name of what is released."""
        return self.image.rpartition(":")[0]

    @property
    def staging(self) -> str:
        """Return the name of what is pushed and not released yet."""
        return f"{os.environ.get('STAGING') or self.staged}/{self.repository.rpartition('/')[2]}"

    @property
    def has_model(self) -> bool:
        """Return whether a model is to be checked: a library may have its tests in tests/gpu alone."""
        return self.kind != "library" or Path("src", self.package, "model.py").is_file()

    @property
    def dockerfile(self) -> str:
        """Return the Dockerfile of the template; an adopted repository may have one of its own beside it."""
        return "image.Dockerfile" if "Dockerfile" in self.adopted.get("kept", []) else "Dockerfile"

    def say(self, message: str) -> None:
        """Say what is done, as every script does."""
        print(f"{self.verb}: {message}", file=sys.stderr, flush=True)

    def no_options(self, words: list[str]) -> None:
        """Raise ScriptError for any option."""
        if words:
            raise ScriptError(2, f"unknown option {words[0]}: see scripts/{self.verb} --help")

    def commit(self) -> str:
        """Return the commit, with -dirty where what is packaged differs from it; new files count."""
        found = git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
        if not found:
            return "unknown"
        new = git("ls-files", "--others", "--exclude-standard", "--", *PACKAGED, *self.adopted.get("code", []))
        if new and not found.endswith("-dirty"):
            self.say(f"not in the commit: {new.splitlines()[0]}")
            return f"{found}-dirty"
        return found

    def pushed(self) -> tuple[str, str, str]:
        """Return what scripts/push wrote, which must be about this commit. Raises ScriptError."""
        image, commit, when = pushed()
        if not re.fullmatch(rf"{re.escape(self.staging)}@sha256:[0-9a-f]{{64}}", image):
            raise ScriptError(2, f"{PUSHED} names {image}, which is not an image of {self.staging}")
        if commit != self.commit():
            raise ScriptError(1, f"the image was pushed from {commit}, this is {self.commit()}: build and push again")
        return image, commit, when

    def proved(self, step: str) -> None:
        """Write down that a step passed, and for which commit: a release asks for each of them."""
        make_build()
        (PROOF / step).write_text(f"{self.commit()}\n", encoding="utf-8")


def git(*words: str) -> str:
    """Return what git prints, "" where it fails."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, errors="surrogateescape", check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def printed(*command: str, given: str = "") -> str:
    """Return what a program prints. Raises ScriptError; the program has said why."""
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ScriptError(1, f"{' '.join(command[:2])} failed; the reason is above")
    return done.stdout.strip()


def commit_time() -> str:
    """Return the time of the commit in UTC, "" outside git: earlier than every other."""
    os.environ["TZ"] = "UTC"
    return git("show", "--no-patch", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ")


def make_build(*earlier: Path) -> None:
    """Make the folders of reports and proofs, and remove files of an earlier run."""
    for folder in (PROOF, RESULTS):
        folder.mkdir(parents=True, exist_ok=True)
    for file in earlier:
        file.unlink(missing_ok=True)


def of_the_wheel() -> dict[str, str]:
    """Return the environment in which Python finds the programs of this wheel, and nothing of the owner's."""
    wheel = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": wheel, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def pushed() -> tuple[str, str, str]:
    """Return what scripts/push wrote: the image, its commit, the time of the push. Raises ScriptError."""
    if not PUSHED.is_file():
        raise ScriptError(2, f"{PUSHED} is missing: run scripts/push first")
    image, commit, when = PUSHED.read_text(encoding="utf-8").splitlines()
    return image, commit, when
