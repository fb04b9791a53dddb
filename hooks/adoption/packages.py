"""What a repository's files say about its packaging, read and never run, and the packages that it requires.

Poetry and Pipenv are read through migrate-to-uv. What is not read is named in `to_do`.
"""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from adoption.tree import Tree

IMPORTS = "the imports of its code"
TEST_GROUP = re.compile(r"dev|tests?|testing|develop|development")
STYLE = re.compile(  # formatters, linters and publishing: the template has its own
    r"black|flake8.*|isort|mypy.*|pylint.*|ruff|pre-commit|sphinx.*|mkdocs.*|twine|build|tox|nox|ipython|jupyter.*|notebook|types-.*|"
    r"setuptools.*|wheel|pip"
)
NOT_READ = {  # files of tools that adopt does not handle
    "environment.yml": "conda", "environment.yaml": "conda", "pixi.toml": "pixi", "cog.yaml": "Cog",
    "bentofile.yaml": "BentoML", "bentofile.yml": "BentoML",
}  # fmt: skip
OTHER_NAMES = {
    "PIL": "pillow", "cv2": "opencv-python-headless", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "yaml": "PyYAML", "bs4": "beautifulsoup4", "pytorch_lightning": "pytorch-lightning", "hydra": "hydra-core",
}  # fmt: skip
SAME_NAMES = {  # a guess from any other name could install a stranger's package
    "accelerate", "albumentations", "boto3", "datasets", "diffusers", "einops", "fastapi", "flask", "fsspec",
    "gradio", "gymnasium", "h5py", "imageio", "jax", "joblib", "keras", "librosa", "lightgbm", "lightning",
    "matplotlib", "mlflow", "networkx", "nltk", "numba", "numpy", "omegaconf", "onnx", "onnxruntime", "openai",
    "pandas", "peft", "plotly", "psutil", "pyarrow", "pydantic", "requests", "rich", "safetensors", "scipy",
    "seaborn", "sentencepiece", "six", "soundfile", "streamlit", "tensorboard", "tensorflow", "tiktoken", "timm",
    "tokenizers", "torch", "torchaudio", "torchmetrics", "torchvision", "tqdm", "transformers", "uvicorn", "wandb",
    "xgboost",
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
    """What the files say; `makers` are those from which a wheel can be built."""

    kinds: list[str] = field(default_factory=list)
    name: str = ""
    description: str = ""
    python: str = ""
    run: list[Asked] = field(default_factory=list)
    dev: list[Asked] = field(default_factory=list)
    static: bool = False  # [project] in pyproject.toml lists the packages, so scripts/lock can read it
    backend: str = ""
    explicit: bool = False  # it says which packages its wheel contains
    to_do: list[str] = field(default_factory=list)

    @property
    def makers(self) -> list[str]:
        """Return what builds a wheel of it."""
        return [kind for kind in self.kinds if kind in ("setup.py", "setup.cfg", "pyproject.toml", "poetry")]

    def names(self) -> set[str]:
        """Return the names of the packages to run."""
        return {asked.name for asked in self.run}

    def add(self, texts: Iterable[str], source: str, dev: bool = False) -> None:
        """Add requirements; those that no lock with hashes can contain go into the to-do list."""
        group = self.dev if dev else self.run
        for text in texts:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                self.to_do.append(f"{source}: `{text}` was not read: add it to the requirements yourself")
                continue
            new = Asked(requirement, source)
            if requirement.url:
                self.to_do.append(
                    f"{source}: `{text}` comes from an address: put a wheel of it into your package index"
                )
            elif not (dev and STYLE.fullmatch(new.name)) and all(
                (old.name, old.requirement.marker) != (new.name, requirement.marker) for old in group
            ):
                group.append(new)


def read_packaging(tree: Tree) -> Packaging:
    """Return what the files at the root say about the packaging."""
    found = Packaging()
    data = toml_of(tree.text("pyproject.toml"))
    if "poetry" in data.get("tool", {}) and "project" not in data:
        migrate(tree, found, "poetry")
    elif "Pipfile" in tree.paths:
        migrate(tree, found, "pipenv")
    read_project(data, found, "pyproject.toml")
    read_setup_cfg(tree.text("setup.cfg"), found)
    read_setup_py(tree.text("setup.py"), found)
    if not found.static:
        for path in (path for path in requirement_files(tree) if not found.run or path == "requirements.txt"):
            found.kinds += [path]
            add_file(found, tree, path)
    for path in (p for p in tree.paths if re.fullmatch(r"[\w-]*(dev|tests?)[\w-]*\.(txt|in)", p) and "req" in p):
        add_file(found, tree, path, dev=True)
    for path, tool in NOT_READ.items():
        if path in tree.paths:
            found.kinds.append(tool)
            found.to_do.append(
                f"{path}: packages of {tool} are not read: add those that are missing to the requirements"
            )
    if not (found.run or found.makers):
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
    found.backend = found.backend or str(data.get("build-system", {}).get("build-backend", ""))
    tool = data.get("tool", {}).get("setuptools", {})
    found.explicit = found.explicit or "packages" in tool or "py-modules" in tool
    if not project:
        return
    found.kinds.append(source)
    found.name = found.name or str(project.get("name", ""))
    found.description = found.description or str(project.get("description", ""))
    found.python = found.python or str(project.get("requires-python", ""))
    found.static = source == "pyproject.toml" and "dependencies" not in project.get("dynamic", [])
    found.add(project.get("dependencies", []), source)
    groups = project.get("optional-dependencies", {}) | data.get("dependency-groups", {})
    for name, texts in groups.items():
        if TEST_GROUP.fullmatch(name):
            own = re.compile(rf"{re.escape(found.name)}\[")
            found.add([text for text in texts if isinstance(text, str) and not own.match(text)], source, dev=True)


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
    sources = {
        canonicalize_name(name): said for name, said in data.get("tool", {}).get("uv", {}).get("sources", {}).items()
    }
    elsewhere = [name for name, said in sources.items() if not (isinstance(said, dict) and "index" in said)]
    for table in (data.get("project", {}).get("dependencies", []), *data.get("dependency-groups", {}).values()):
        for text in [text for text in table if canonicalize_name(re.split(r"[\[<>=!~; ]", text)[0]) in elsewhere]:
            table.remove(text)
            found.to_do.append(f"{tool}: `{text}` comes from an address: put a wheel of it into your package index")
    read_project(data, found, tool)
    found.explicit = found.explicit or tool == "poetry"


def read_setup_cfg(text: str, found: Packaging) -> None:
    """Read the metadata and the packages of a setup.cfg."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    if parser.has_section("metadata") and parser.has_option("metadata", "name"):
        found.kinds.append("setup.cfg")
        found.name = found.name or parser.get("metadata", "name")
        found.description = found.description or parser.get("metadata", "description", fallback="")
    if parser.has_section("options"):
        found.python = found.python or parser.get("options", "python_requires", fallback="")
        found.explicit = found.explicit or parser.has_option("options", "packages")
        found.add(lines_of(parser.get("options", "install_requires", fallback="")), "setup.cfg")


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
    said = {name: literal(value) for name, value in words.items()}
    found.name = found.name or str(said.get("name") or "")
    found.description = found.description or str(said.get("description") or "")
    found.python = found.python or str(said.get("python_requires") or "")
    found.explicit = found.explicit or "packages" in words or "py_modules" in words
    packages = said.get("install_requires")
    found.add([text for text in packages if isinstance(text, str)] if isinstance(packages, list) else [], "setup.py")
    if "install_requires" in words and packages is None and not re.search(r"req[\w/-]*\.(txt|in)", text):
        found.to_do.append("setup.py computes install_requires: add the packages to the requirements")
    if {"ext_modules", "cffi_modules", "rust_extensions"} & words.keys():
        found.to_do.append("setup.py compiles extensions: base images have no compiler, so build their wheel elsewhere")


def literal(node: ast.expr) -> Any:
    """Return the value of an expression that is written out, else None."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def requirement_files(tree: Tree) -> list[str]:
    """Return the requirements files of the code: requirements.txt, else those of the same kind at the root."""
    found = [path for path in tree.paths if re.fullmatch(r"(requirements/)?[\w.-]*\.(txt|in)", path)]
    found = [p for p in found if re.search(r"req|^requirements/", p) and not re.search(r"dev|test|doc|lint|lock", p)]
    return [path for path in found if path in ("requirements.txt", "requirements.in")][-1:] or found[:1]


def add_file(found: Packaging, tree: Tree, path: str, dev: bool = False, seen: frozenset[str] = frozenset()) -> None:
    """Add the lines of a requirements file and of those that it includes."""
    for line in lines_of(tree.text(path)):
        option, _, rest = line.partition(" ") if line.startswith("-") else ("", "", line)
        if option in ("-r", "--requirement"):
            inner = str((Path(path).parent / rest.strip()).as_posix()).removeprefix("./")
            if inner not in seen:
                add_file(found, tree, inner, dev, seen | {path})
        elif option in ("-e", "--editable") and rest.strip().split("[")[0] in (".", "./"):
            continue
        elif option or ("://" in line.split("#")[0] and "@" not in line.split("://")[0]):
            found.to_do.append(
                f"{path}: `{line}` is not read: an index belongs into PIP_EXTRA_INDEX_URL, a wheel into it"
            )
        else:
            found.add([re.split(r"\s--", rest)[0].strip()], path, dev)


def lines_of(text: str) -> list[str]:
    """Return the lines of a requirements file, continued lines joined and comments dropped."""
    joined = re.sub(r"\\\n", " ", text)
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines()) if line]


def add_imported(found: Packaging, tree: Tree) -> None:
    """Let the imports say what the code needs, if no file does."""
    own = {part.removesuffix(".py") for path in tree.python for part in path.split("/")}
    names = sorted(set(tree.imports) - own)
    known = [OTHER_NAMES.get(name, name) for name in names if name in OTHER_NAMES or name in SAME_NAMES]
    found.add(known, IMPORTS)
    if unknown := [name for name in names if name not in OTHER_NAMES and name not in SAME_NAMES]:
        found.to_do.append(f"no file requires {', '.join(unknown[:12])}, which the code imports: add their packages")
