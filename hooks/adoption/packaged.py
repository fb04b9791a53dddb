"""What the files of a repository say of its packaging."""

from __future__ import annotations

from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from adoption.requirements import Packages
from adoption.texts import named

IMPORTS = "the imports of its code"  # where a package is asked for by nothing else
EXTRA = ", extra "  # between the file and the name of an extra, where a package is asked for by that


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
