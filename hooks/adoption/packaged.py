"""What the files of a repository say of its packaging."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from adoption.requirements import Packages
from adoption.texts import named

IMPORTS = "the imports of its code"  # where a package is asked for by nothing else
EXTRA = ", extra "  # between the file and the name of an extra, where a package is asked for by that
STYLE = re.compile(  # what checks style, builds pages or publishes: no test needs it
    r"(black|flake8.*|isort|mypy.*|pylint.*|ruff|pre-commit|sphinx.*|mkdocs.*|docutils|pymdown-extensions|twine|build|bandit|tox|nox|"
    r"ipython|jupyter.*|notebook|pyinstaller|codespell|bumpversion|types-.*|myst.*|furo|setuptools.*|wheel|pip)"
)
TEST_GROUP = re.compile(r"(dev|test|tests|testing|develop|development)")
GPU_GROUP = re.compile(r"(gpu|cuda)")  # what is made for an image with a GPU
BESIDE = re.compile(
    r"(docs?|documentation|lint|linting|style|format|types|typing|build|publish|release|examples?|notebooks?|all|full)"
)
ELSEWHERE = "an index is said with PIP_INDEX_URL or PIP_EXTRA_INDEX_URL"
OF_THE_IMAGE = re.compile(r"(//|[.@])(pytorch|nvidia)\.(org|com)(/|$)")  # the image has torch and CUDA already
COMMON = re.compile(r"\bpypi\b", re.IGNORECASE)


@dataclass
class Packaging:
    """What the files say; `kinds` are those that were found."""

    kinds: list[str] = field(default_factory=list)
    name: str = ""
    description: str = ""
    python: str = ""
    python_source: str = ""
    packages: Packages = field(default_factory=Packages)
    static: bool = False  # pyproject.toml says the packages itself, so that they need not be built to be known
    backend: str = ""
    explicit: bool = False  # it says which packages its wheel holds
    extensions: bool = False
    scripts: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    extras: dict[str, list[str]] = field(default_factory=dict)  # what a wheel of it asks for only if somebody names it
    held: list[tuple[Requirement, str]] = field(default_factory=list)  # constraints, and the files that have them
    notes: list[str] = field(default_factory=list)

    @property
    def makers(self) -> list[str]:
        """Return what makes a wheel of it."""
        return [kind for kind in self.kinds if kind in ("setup.py", "setup.cfg", "pyproject.toml", "poetry")]

    def names(self) -> set[str]:
        """Return the names of all packages, those of development too."""
        return {asked.name for asked in (*self.packages.run, *self.packages.dev)}

    def add_group(self, name: str, texts: Iterable[str], file: str) -> None:
        """Take an extra or a group: one of tests is for development, of another one the names are kept."""
        for text in texts:
            own = re.match(rf"{re.escape(self.name)}\[", text) if self.name else None
            if TEST_GROUP.fullmatch(name) and not own:
                self.packages.add(text, file, dev=True)
            elif GPU_GROUP.fullmatch(name) and not own:
                self.packages.add(text, f"{file}{EXTRA}{name}")
            elif not (own or BESIDE.fullmatch(name)) and (start := re.match(r"[\w.-]+", text)):
                plain = canonicalize_name(start[0])
                self.extras.setdefault(name, []).extend([] if STYLE.fullmatch(plain) else [plain])

    def add_index(self, text: str, file: str) -> None:
        """Note an index or a folder of packages beside the common one; `text` is how the file says it."""
        if OF_THE_IMAGE.search(text):
            note = f"{file} names an index of PyTorch or NVIDIA: torch and CUDA are the image's, nothing comes from it"
            self.notes += [note] if note not in self.notes else []
        elif (text, file, ELSEWHERE) not in self.packages.left:
            self.packages.left.append((text, file, ELSEWHERE))

    def hold(self) -> None:
        """Let what is asked for have the bounds that constraints give it; say which were for nothing."""
        for group in (self.packages.run, self.packages.dev):
            for asked in group:
                asked.hold(self.held)
        known = self.names()
        for file in dict.fromkeys(source for _, source in self.held):
            held = {one.name for one, source in self.held if source == file}
            idle = sorted(name for name in held if canonicalize_name(name) not in known)
            if idle:
                self.notes.append(
                    f"{file} holds packages that nothing asks for ({named(idle)}): where a bound matters, the package "
                    "goes into requirements.in with it"
                )
