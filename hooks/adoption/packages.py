"""What a repository's files say about its packaging, read and never run, and the packages that it requires.

Poetry and Pipenv are read through migrate-to-uv. What is not read is named in `to_do`.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from adoption.tree import Tree

DEVELOPMENT = re.compile(r"dev|tests?|testing|develop|development")  # names of groups and extras
STYLE = re.compile(  # formatters, linters and publishing: the template has its own
    r"black|flake8.*|isort|mypy.*|pylint.*|ruff|pre-commit|sphinx.*|mkdocs.*|twine|build|tox|nox|ipython|jupyter.*|notebook|types-.*|"
    r"setuptools.*|wheel|pip"
)
NOT_READ = {"environment.yml": "conda", "environment.yaml": "conda", "pixi.toml": "pixi", "cog.yaml": "Cog",
            "bentofile.yaml": "BentoML", "setup.cfg": "setup.cfg"}  # fmt: skip
OTHER_NAMES = {"PIL": "pillow", "cv2": "opencv-python-headless", "sklearn": "scikit-learn", "yaml": "PyYAML"}
SAME_NAMES = {  # a guess from any other name could install a stranger's package
    "accelerate", "datasets", "diffusers", "einops", "imageio", "joblib", "keras", "librosa", "matplotlib", "numpy",
    "pandas", "requests", "scipy", "seaborn", "soundfile", "tensorboard", "tensorflow", "tiktoken", "timm", "torch",
    "torchaudio", "torchvision", "tqdm", "transformers", "wandb", "xgboost",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One package that the repository requires, and the file that says so."""

    requirement: Requirement
    source: str

    @property
    def name(self) -> str:
        """Return the name as indexes write it."""
        return canonicalize_name(self.requirement.name)


@dataclass
class Packaging:
    """What the files say; `is_packaged` where a wheel can be built of it."""

    kinds: list[str] = field(default_factory=list)
    name: str = ""
    description: str = ""
    python: str = ""
    run: list[Asked] = field(default_factory=list)
    dev: list[Asked] = field(default_factory=list)
    is_static: bool = False  # [project] in pyproject.toml lists the packages, so scripts/lock can read it
    to_do: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_packaged(self) -> bool:
        """Return whether a wheel can be built of it."""
        return bool({"setup.py", "pyproject.toml", "poetry"} & {*self.kinds})

    def names(self) -> set[str]:
        """Return the names of the packages to run."""
        return {asked.name for asked in self.run}

    def describe(self, name: object, description: object, python: object) -> None:
        """Take what no file said before."""
        self.name = self.name or str(name or "")
        self.description = self.description or str(description or "")
        self.python = self.python or str(python or "")

    def add(self, texts: Iterable[str], source: str, dev: bool = False) -> None:
        """Add requirements; those that no lock with hashes can contain go into the to-do list."""
        group = self.dev if dev else self.run
        for text in texts:
            try:
                new = Asked(Requirement(text), source)
            except InvalidRequirement:
                self.to_do.append(f"{source}: `{text}` was not read: add it to the requirements yourself")
                continue
            if new.requirement.url:
                self.to_do.append(f"{source}: `{text}` comes from an address: put a wheel into your package index")
            elif not (dev and STYLE.fullmatch(new.name)) and new.name not in {
                old.name for old in group if old.requirement.marker == new.requirement.marker
            }:
                group.append(new)


def read_packaging(tree: Tree) -> Packaging:
    """Return what the files at the root say about the packaging."""
    found, data = Packaging(), toml_of(tree.text("pyproject.toml"))
    if "poetry" in data.get("tool", {}) and "project" not in data:
        migrate(tree, found, "poetry")
    elif "Pipfile" in tree.paths:
        migrate(tree, found, "pipenv")
    read_project(data, found, "pyproject.toml")
    read_setup_py(tree.text("setup.py"), found)
    if not found.is_static:
        for path in (path for path in requirement_files(tree) if not found.run or path == "requirements.txt"):
            found.kinds.append(path)
            add_file(found, tree, path)
    for path in (one for one in tree.paths if re.fullmatch(r"[\w-]*req[\w-]*(dev|tests?)[\w-]*\.(txt|in)", one)):
        add_file(found, tree, path, dev=True)
    for path in NOT_READ.keys() & {*tree.paths}:
        if path != "setup.cfg" or "install_requires" in tree.text(path):
            said = f"{path}: packages of {NOT_READ[path]} are not read: add those that are missing to the requirements"
            (found.notes if any("requirements" in kind for kind in found.kinds) else found.to_do).append(said)
            found.kinds.append(NOT_READ[path])
    if not (found.run or found.is_packaged):
        add_imported(found, tree)
    return found


def toml_of(text: str) -> dict[str, Any]:
    """Return a TOML file, nothing if it cannot be read."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def read_project(data: dict[str, Any], found: Packaging, source: str) -> None:
    """Read the tables of the standards from a pyproject.toml."""
    project = data.get("project", {})
    if not project:
        return
    found.kinds.append(source)
    found.describe(project.get("name"), project.get("description"), project.get("requires-python"))
    found.is_static = source == "pyproject.toml" and "dependencies" not in project.get("dynamic", [])
    found.add(project.get("dependencies", []), source)
    for name, texts in (project.get("optional-dependencies", {}) | data.get("dependency-groups", {})).items():
        if DEVELOPMENT.fullmatch(name):
            own = f"{found.name}["
            found.add([text for text in texts if isinstance(text, str) and not text.startswith(own)], source, dev=True)
    setuptools = data.get("tool", {}).get("setuptools", {})
    if "setuptools" in data.get("build-system", {}).get("build-backend", "") and not setuptools.keys() & {
        "packages", "py-modules"}:  # fmt: skip
        found.notes.append(
            "setuptools looks for your packages: where you build a wheel, name them in [tool.setuptools] packages, "
            "or it takes those in src/ instead"
        )


def migrate(tree: Tree, found: Packaging, tool: str) -> None:
    """Read the files of Poetry or Pipenv in the words of the standards, which migrate-to-uv writes."""
    with TemporaryDirectory() as folder:
        for name in ("pyproject.toml", "Pipfile"):
            if name in tree.paths:
                shutil.copyfile(tree.folder / name, Path(folder, name))
        command = [str(Path(sys.executable).with_name("migrate-to-uv")), "--package-manager", tool, "--skip-lock",
                   "--ignore-errors", "--skip-uv-checks", folder]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        data = toml_of(Path(folder, "pyproject.toml").read_text(encoding="utf-8")) if done.returncode == 0 else {}
    if not data:
        found.to_do.append(f"migrate-to-uv cannot read the files of {tool}: {' '.join(done.stderr.split())[-300:]}")
        return
    sources = data.get("tool", {}).get("uv", {}).get("sources", {}).items()
    elsewhere = {canonicalize_name(name) for name, one in sources if not (isinstance(one, dict) and "index" in one)}
    for table in (data.get("project", {}).get("dependencies", []), *data.get("dependency-groups", {}).values()):
        for text in [one for one in table if canonicalize_name(re.split(r"[\[<>=!~; ]", one)[0]) in elsewhere]:
            table.remove(text)
            found.to_do.append(f"{tool}: `{text}` comes from an address: put a wheel into your package index")
    read_project(data, found, tool)


def read_setup_py(text: str, found: Packaging) -> None:
    """Read the words of setup() that are written out; setup.py is not run."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        found.to_do.append("setup.py cannot be read by this Python: add its packages to the requirements")
        return
    known = {node.targets[0].id: node.value for node in ast.walk(tree)
             if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setup")]
    words = {word.arg: known.get(word.value.id, word.value) if isinstance(word.value, ast.Name) else word.value
             for call in calls for word in call.keywords if word.arg}  # fmt: skip
    if not calls:
        return
    found.kinds.append("setup.py")
    said: dict[str, Any] = {}
    for name, value in words.items():
        with suppress(ValueError):  # it is computed
            said[name] = ast.literal_eval(value)
    found.describe(said.get("name"), said.get("description"), said.get("python_requires"))
    packages = said.get("install_requires")
    found.add([one for one in packages if isinstance(one, str)] if isinstance(packages, list) else [], "setup.py")
    if "install_requires" in words and packages is None and not re.search(r"req[\w/-]*\.(txt|in)", text):
        found.to_do.append("setup.py computes install_requires: add the packages to the requirements")
    if {"ext_modules", "cffi_modules", "rust_extensions"} & words.keys():
        found.to_do.append("setup.py compiles extensions: base images have no compiler, so build their wheel elsewhere")


def requirement_files(tree: Tree) -> list[str]:
    """Return the requirements files of the code: requirements.txt, else those of the same kind at the root."""
    found = [path for path in tree.paths if re.fullmatch(r"(requirements/)?[\w.-]*\.(txt|in)", path)]
    found = [p for p in found if re.search(r"req|^requirements/", p) and not re.search(r"dev|test|doc|lint|lock", p)]
    return [path for path in found if path in ("requirements.txt", "requirements.in")][-1:] or found[:1]


def add_file(found: Packaging, tree: Tree, path: str, dev: bool = False) -> None:
    """Add the lines of a requirements file."""
    for line in re.sub(r"\\\n", " ", tree.text(path)).splitlines():
        text = re.split(r"\s--", re.sub(r"(^|\s)#.*", "", line).strip())[0].strip()
        if re.fullmatch(r"(-e|--editable) \.(/|\[.*)?|", text):
            continue
        if text.startswith("-") or ("://" in text and "@" not in text.split("://")[0]):
            found.to_do.append(
                f"{path}: `{text}` is not read: an index belongs into PIP_EXTRA_INDEX_URL, packages into this file"
            )
        else:
            found.add([text], path, dev)


def add_imported(found: Packaging, tree: Tree) -> None:
    """Let the imports say what the code needs, if no file lists packages."""
    own = {part.removesuffix(".py") for path in tree.python for part in path.split("/")}
    names = sorted(set(tree.imports) - own)
    found.add([OTHER_NAMES.get(name, name) for name in names if name in SAME_NAMES | OTHER_NAMES.keys()], "its code")
    if unknown := [name for name in names if name not in SAME_NAMES | OTHER_NAMES.keys()]:
        found.to_do.append(f"no file lists packages; the code imports {', '.join(unknown)}: add them to requirements")
