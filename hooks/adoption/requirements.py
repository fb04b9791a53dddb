"""The packages that a repository asks for, in one form, whatever tool it wrote them for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

CONDA_NAMES = {"pytorch": "torch", "opencv": "opencv-python", "msgpack-python": "msgpack", "pytables": "tables"}
CONDA_ONLY = re.compile(  # what conda brings as a package and Python packages, the image or the system bring otherwise
    r"(_libgcc_mutex|_openmp_mutex|python|pip|setuptools|wheel|pytorch-cuda|pytorch-mutex|cuda.*|cudatoolkit.*|cudnn|nccl|mkl.*|blas|"
    r"intel-openmp|lib.*|ffmpeg|gcc.*|gxx.*|cxx-compiler|c-compiler|compilers|nvcc.*|openssl|ca-certificates|certifi|zlib|xz|sqlite|tk|"
    r"readline|ncurses|ld_impl.*|bzip2|conda.*|git|make|cmake|ninja)"
)


SAME_AS = {  # builds of a framework under names of their own, none of which goes beside the image's
    "tensorflow-gpu": "tensorflow", "tensorflow-cpu": "tensorflow", "tensorflow-intel": "tensorflow",
    "tf-nightly": "tensorflow", "tf-nightly-gpu": "tensorflow", "pytorch": "torch", "torch-cpu": "torch",
}  # fmt: skip


@dataclass
class Asked:
    """One package that the repository asks for, and the file that says so."""

    requirement: Requirement
    source: str

    @property
    def name(self) -> str:
        """Return the name as indexes write it."""
        return canonicalize_name(self.requirement.name)

    def is_about(self, other: Requirement) -> bool:
        """Tell whether this is the package of another requirement."""
        return self.name == canonicalize_name(other.name)

    def hold(self, constraints: Iterable[tuple[Requirement, str]]) -> None:
        """Take the bounds over that constraints, each with its file, give this package here."""
        for one, file in constraints:
            if self.is_about(one) and one.specifier and (one.marker is None or one.marker.evaluate({"extra": ""})):
                self.requirement = Requirement(str(self.requirement))
                self.requirement.specifier &= one.specifier
                self.source = f"{self.source} with {file}" if file not in self.source else self.source


SOURCES = ("path", "git", "url", "workspace", "index", "source")
PYTORCH = re.compile(r"torch|triton|pytorch-|nvidia-|xformers$")


@dataclass
class Packages:
    """What was read: packages to run and to develop, and what could not be taken over, with the reason."""

    run: list[Asked] = field(default_factory=list)
    dev: list[Asked] = field(default_factory=list)
    left: list[tuple[str, str, str]] = field(default_factory=list)  # text, file, reason

    def add(self, text: str, source: str, dev: bool = False) -> None:
        """Add one requirement of PEP 508; what no lock with hashes can hold is left out and named."""
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            self.left.append((text, source, "it is not a requirement that can be read"))
            return
        if requirement.url:
            self.left.append(
                (text, source, "it comes from an address and not from an index, so it has no hash to lock")
            )
            return
        wanted = self.dev if dev else self.run
        new = Asked(requirement, source)
        if not any(
            old.name == new.name and (old.source != source or str(old.requirement) == str(requirement))
            for old in wanted
        ):
            wanted.append(new)  # the first file counts; one file may name a package twice, with other markers

    def names(self) -> set[str]:
        """Return the names of the packages to run."""
        return {asked.name for asked in self.run}


def lines_of(text: str) -> list[str]:
    """Return the entries of a requirements file, continued lines joined, comments dropped."""
    joined = re.sub(r"\\\n", " ", text)
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines()) if line]


def without_hashes(line: str) -> str:
    """Return a line of a requirements file without pip's options behind it."""
    return re.split(r"\s--", line)[0].strip()


def from_caret(text: str) -> str:
    """Return Poetry's `^1.2.3`, `~1.2` or `1.2.*` as PEP 440. Raises InvalidSpecifier."""
    parts = []
    for part in (piece.strip() for piece in text.split(",")):
        found = re.fullmatch(r"([\^~])\s*v?(\d+(?:\.\d+)*)(\S*)", part)
        if part == "*" or not part:
            continue
        if not found:
            parts.append(f"=={part}" if re.match(r"\d", part) else part)
            continue
        numbers = [int(number) for number in found[2].split(".")]
        if found[1] == "~":
            place = min(1, len(numbers) - 1)
        else:
            place = next((n for n, number in enumerate(numbers) if number), len(numbers) - 1)
        upper = [*numbers[:place], numbers[place] + 1]
        parts.append(f">={found[2]}{found[3]},<{'.'.join(map(str, upper))}")
    return str(SpecifierSet(",".join(parts)))


def poetry_requirement(name: str, value: object) -> str | None:
    """Return an entry of Poetry's tables as PEP 508, None for what is not a package of an index."""
    entry = value if isinstance(value, Mapping) else {"version": value}
    if any(key in entry for key in ("git", "path", "url", "file")):
        return None
    extras = entry.get("extras") or []
    version = from_caret(str(entry.get("version", "*")))
    named = f"[{','.join(map(str, extras))}]" if isinstance(extras, list) and extras else ""
    return f"{name}{named}{version}"


def pipfile_requirement(name: str, value: object) -> str | None:
    """Return an entry of a Pipfile as PEP 508, None for what is not a package of an index."""
    return poetry_requirement(name, value)


def conda_entry(text: str) -> tuple[str, str]:
    """Return the name and the version of an entry of a conda environment, without its channel and its build."""
    found = re.fullmatch(r"(?:[\w./-]+::)?([A-Za-z0-9_.-]+)\s*(.*)", text.strip())
    return (found[1], found[2].strip()) if found else ("", "")


def conda_version(version: str) -> str:
    """Return what conda says of a version, and maybe of a build, as PEP 440: `=1.2` and `1.2` are 1.2.*."""
    said = re.fullmatch(r"(={0,2})\s*([\w.!+]+)(\.?\*)?(?:\s*=\s*[\w.*]+|\s+[\w.*]+)?", version)
    if not said:
        return str(SpecifierSet(version.replace(" ", "")))
    return str(SpecifierSet(f"=={said[2]}" if said[1] == "==" and not said[3] else f"=={said[2]}.*"))


def conda_requirement(text: str) -> str | None:
    """Return an entry of a conda environment as PEP 508, None for what is not for pip. Raises InvalidSpecifier."""
    name, version = conda_entry(text)
    if not name or CONDA_ONLY.fullmatch(name.lower()):
        return None
    return f"{CONDA_NAMES.get(name.lower(), name)}{conda_version(version)}"


def leave_sourced(packages: Packages, sources: Mapping[str, object], file: str) -> None:
    """Take out the packages that a table of sources (uv, Poetry) brings from elsewhere than the common index.

    Asked for by name, another package of that name would come. What PyTorch's own index has is on the common one too.
    """
    for name, value in sources.items():
        entries = [entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, Mapping)]
        said = {key: entry[key] for entry in entries for key in SOURCES if key in entry}
        if not said or (said.keys() <= {"index", "source"} and PYTORCH.match(canonicalize_name(name))):
            continue
        key, where = next(iter(said.items()))
        for group in (packages.run, packages.dev):
            for asked in [asked for asked in group if asked.name == canonicalize_name(name)]:
                group.remove(asked)
                reason = f"{file} takes it from the {key} {where}, and the common index may have another of that name"
                packages.left.append((str(asked.requirement), asked.source, reason))


def try_add(packages: Packages, make: Iterable[object], text: str, source: str, dev: bool = False) -> None:
    """Add what `make` gives, or name `text` as left out."""
    try:
        requirement = next(iter(make))
    except InvalidSpecifier:
        packages.left.append((text, source, "its version cannot be said in pip's words"))
        return
    if requirement is None:
        packages.left.append((text, source, "pip has no package of an index for it"))
        return
    packages.add(str(requirement), source, dev)


@dataclass(frozen=True)
class Fitted:
    """A requirement as it goes into the locks, and what had to be changed about it."""

    text: str
    source: str
    note: str = ""


def fitted(asked: Asked, held: Mapping[str, str], image: str) -> Fitted:
    """Return what the image lets a requirement be: its own version where the repository asks for another."""
    if (same := SAME_AS.get(asked.name)) in held and same:
        note = f"{asked.source} asks for {asked.requirement}, the image {image} has {same} {held[same]} for it"
        return Fitted(same, asked.source, note)
    wanted, version = asked.requirement, held.get(asked.name)
    if version is None or wanted.specifier.contains(version, prereleases=True):
        return Fitted(str(wanted), asked.source)
    free = Requirement(str(wanted))
    free.specifier = SpecifierSet()
    note = f"{asked.source} asks for {wanted}, the image {image} has {asked.name} {version}"
    return Fitted(str(free), asked.source, note)


def loosened(text: str) -> str:
    """Return a requirement without the upper bounds and pins: from the version it named upward."""
    requirement = Requirement(text)
    lower = []
    for spec in requirement.specifier:
        if spec.operator in (">=", ">", "!="):
            lower.append(str(spec))
        elif spec.operator in ("==", "~=", "==="):
            lower.append(f">={spec.version.removesuffix('.*').partition('+')[0]}")  # a build has no later ones
    requirement.specifier = SpecifierSet(",".join(lower))
    return str(requirement)


def versions_held(constraints: str) -> dict[str, str]:
    """Return the versions that the image holds, by the names of their packages."""
    found = re.findall(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)==([^ ;\s]+)", constraints)
    return {canonicalize_name(name): version for name, version in found}
