"""What becomes of each file where the template meets a repository: new, merged, kept, or next to the owner's."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from git_calls import call

from adoption.packages import Packaging
from adoption.repository import AdoptError
from adoption.tree import PLAIN, Layout, Tree

HEAD = "# from the template"  # an update merges what stands below this line
MERGED = (".gitignore", ".dockerignore")
OPTIONAL = re.compile(  # without these the scripts still work, so the owner's file of that name stays
    r"Dockerfile|\.dockerignore|\.gitignore|Jenkinsfile|\.gitlab-ci\.yml|\.github/.*|\.devcontainer/.*|\.editorconfig|"
    r"\.pre-commit-config\.yaml|pytest\.ini|renovate\.json|ruff\.toml|README\.md|pyproject\.toml|compose(\.gpu)?\.yaml|"
    r"monitoring/.*|deploy/overlays/.*|tests/[^/]*\.py"
)
MARKS = {"parametrize", "skip", "skipif", "xfail", "usefixtures", "filterwarnings", "tryfirst", "trylast"}


@dataclass(frozen=True)
class Entry:
    """One file of the template: `kind` is new, merged, kept, beside or same."""

    path: str
    kind: str
    how: str = ""


def files_in(folder: Path) -> list[str]:
    """Return the paths of all files in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def own_settings(tree: Tree) -> dict[str, str]:
    """Return the files of the template that would hide settings of the repository, with where those are."""
    try:
        tool = tomllib.loads(tree.text("pyproject.toml")).get("tool", {})
    except tomllib.TOMLDecodeError:
        tool = {}
    found = {f"{name}.{end}": "pyproject.toml" for name, end in (("pytest", "ini"), ("ruff", "toml")) if name in tool}
    for name, section in (("setup.cfg", "[tool:pytest]"), ("tox.ini", "[pytest]")):
        if section in tree.text(name):
            found.setdefault("pytest.ini", name)
    return found | ({"ruff.toml": ".ruff.toml"} if ".ruff.toml" in tree.paths else {})


def kept_paths(tree: Tree, rendered: list[str]) -> dict[str, str]:
    """Return the paths of the template that stay the owner's, with the reason. Raises AdoptError."""
    theirs = {path.lower(): path for path in tree.paths}
    kept = {name: f"its settings are in {where}" for name, where in own_settings(tree).items() if name in rendered}
    kept["pyproject.toml"] = "the packages to lock are in files of their own"
    if page := next((path for path in tree.paths if re.fullmatch(r"(?i)readme(\.(md|rst|txt|adoc|org))?", path)), ""):
        kept["README.md"] = f"yours is {page}"
    blocked = []
    for path in rendered:
        there = theirs.get(path.lower())
        above = [theirs[part.lower()] for part in map(str, Path(path).parents) if part.lower() in theirs]
        inside = [m for m in tree.submodules if f"{path}/".startswith(f"{m}/") or m.startswith(f"{path}/")]
        if above or inside or any(name.startswith(f"{path.lower()}/") for name in theirs):
            blocked.append(f"{(above or inside or [path])[0]} is where the template has {path}")
        elif there and not OPTIONAL.fullmatch(path):
            blocked.append(f"{there} is a file of the template, too")
        elif there and path in MERGED and there in tree.links:
            blocked.append(f"{there} is a link, and lines of the template go into it")
        elif there and path not in MERGED:
            kept.setdefault(path, "you have this already")
    if "Dockerfile" in kept and ".dockerignore" in rendered:
        kept[".dockerignore"] = "it belongs to your Dockerfile"
    if blocked:
        raise AdoptError(f"{'; '.join(blocked[:5])}: rename yours first (git mv), the scripts need theirs")
    return kept


def entries_of(tree: Tree, render: Path, kept: dict[str, str]) -> list[Entry]:
    """Return what becomes of each file of the template, in the order of their names."""
    found = []
    for path in files_in(render):
        if path not in tree.paths:
            found.append(Entry(path, "new"))
        elif (tree.folder / path).read_bytes() == (render / path).read_bytes():
            found.append(Entry(path, "same"))
        elif path in MERGED:
            found.append(Entry(path, "merged", "your lines, then those of the template"))
    for path, why in kept.items():
        if path == "Dockerfile":
            found.append(Entry(path, "beside", f"{why}; the template's is image.Dockerfile"))
        elif not path.startswith("scripts/"):
            found.append(Entry(path, "kept", why))
    return sorted(found, key=lambda entry: entry.path)


def requirements_prefix(tree: Tree) -> str:
    """Return how the names of the files begin that scripts/lock reads."""
    taken = any(re.fullmatch(r"requirements(-gpu|-dev)?\.in", path) for path in tree.paths)
    return "image-requirements" if taken else "requirements"


def answer_of(tree: Tree, layout: Layout, kept: dict[str, str], asks: bool) -> dict[str, Any]:
    """Return the answer `adopted`, which tells the template what was here before it."""
    scripts = [path for path in tree.paths if re.fullmatch(rf"scripts/{PLAIN.pattern}", path)]
    shell = [path for path in scripts if re.match(r"#!.*sh\s*$", tree.text(path).partition("\n")[0])]
    answer: dict[str, Any] = {"asks": True} if asks else {}
    answer |= {
        "code": [path for path in layout.code if not path.startswith("src/") or layout.package == "src"],
        "kept": sorted({*kept, *shell}),
        "requirements": requirements_prefix(tree),
        "baseline": True,
    }
    return answer | ({"package": layout.package} if layout.package else {})


def place(clone: Path, render: Path, entries: list[Entry]) -> list[str]:
    """Write the files of the template into the clone; return the new ones."""
    new = []
    for entry in entries:
        source, target = render / entry.path, clone / entry.path
        if entry.kind == "new":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            new.append(entry.path)
        elif entry.kind == "merged":
            theirs = target.read_bytes().decode("utf-8", errors="surrogateescape")
            text = united(theirs, source.read_text(encoding="utf-8"))
            target.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    return new


def united(theirs: str, ours: str) -> str:
    """Return the owner's lines, then the template's as one block with the owner's line ends."""
    windows = theirs.count("\r\n") == theirs.count("\n") > 0
    end = "" if theirs.endswith("\n") or not theirs else "\n"
    block = f"{end}\n{HEAD}\n{ours}"
    return theirs + (block.replace("\n", "\r\n") if windows else block)


def unignore(clone: Path, paths: list[str]) -> None:
    """Add patterns to .gitignore so that git adds the files of the template that a pattern of the owner matches."""
    given = "".join(f"{path}\0" for path in paths).encode()
    done = call(clone, "check-ignore", "--no-index", "-z", "--stdin", stdin=given)
    if ignored := [path for path in done.stdout.decode(errors="surrogateescape").split("\0") if path]:
        folders = {f"!/{part}/" for path in ignored for part in map(str, Path(path).parents) if part != "."}
        lines = [*sorted(folders, key=len), *(f"!/{path}" for path in ignored)]
        with (clone / ".gitignore").open("ab") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())


def fit_files(clone: Path, tree: Tree, layout: Layout, package: str, new: list[str]) -> None:
    """Name the owner's code in the template's model.py, and their tests in its pytest.ini."""
    model = clone / "src" / package / "model.py"
    names = [name for name in layout.packages or [Path(path).stem for path in layout.modules] if name.isidentifier()]
    head, quotes, rest = model.read_text(encoding="utf-8").partition('"""\n')
    if names and quotes:
        note = f"# Your code from before can be imported here: {', '.join(names[:6])}.\n"
        model.write_text(f"{head}{quotes}\n{note}{rest}", encoding="utf-8")
    if "pytest.ini" in new:
        file = clone / "pytest.ini"
        file.write_text(test_settings(tree, file.read_text(encoding="utf-8")), encoding="utf-8")


def test_settings(tree: Tree, text: str) -> str:
    """Return pytest.ini with the folders and the marks of the owner's tests."""
    folders = {re.sub(r"((^|/)(tests?|testing))/.*", r"\1", str(Path(path).parent)) for path in tree.tests}
    folders -= {"tests", "."}
    asides = re.compile(r"(^|/)(third_party|examples?|docs?|evals|tools|notebooks?)(/|$)")
    outer = {name for name in folders if not any(name.startswith(f"{other}/") for other in {*folders, "tests"})}
    more = sorted(name for name in outer if not asides.search(name)) + sorted(p for p in tree.tests if "/" not in p)
    if more:
        text = text.replace("testpaths = tests\n", f"testpaths = tests {' '.join(more)}\n")
    if "__init__.py" in tree.paths and "conftest.py" not in tree.paths:  # else pytest imports the root for each test
        text = text.replace("addopts = ", "addopts = --confcutdir=tests ")
    marks = {mark for path in tree.tests for mark in re.findall(r"pytest\.mark\.([A-Za-z_]\w*)", tree.text(path))}
    lines = [f"    {mark}: of the tests that were here before the template\n" for mark in sorted(marks - MARKS)]
    return text + ("markers =\n" + "".join(lines) if lines else "")


def name_packages(clone: Path, packaging: Packaging, layout: Layout, package: str) -> Entry | str:
    """Write into pyproject.toml which packages the owner's wheel contains, if setuptools would take the template's too.

    Returns the entry, what is left to do, or "".
    """
    file = clone / "pyproject.toml"
    document = tomlkit.parse(file.read_bytes().decode("utf-8")) if file.is_file() else tomlkit.document()
    if packaging.explicit or "project" not in document or (packaging.backend and "setuptools" not in packaging.backend):
        searched = re.search(r"where\s*=\s*\[?.?src|find_(namespace_)?packages\(.?src|find_namespace:", "".join(
            (clone / name).read_text(encoding="utf-8", errors="replace")
            for name in ("pyproject.toml", "setup.cfg", "setup.py") if (clone / name).is_file()))  # fmt: skip
        return f"your packaging searches src/ for packages: let it exclude {package}*" if searched else ""
    find: dict[str, Any] = {"include": [name for one in layout.packages for name in (one, f"{one}.*")]}
    if layout.kind in ("src", "several") and (clone / "src" / (layout.packages or [""])[0]).is_dir():
        find = {"where": ["src"], "exclude": [f"{package}*"]}
    tool = document.setdefault("tool", tomlkit.table(is_super_table=True))
    setuptools = tool.setdefault("setuptools", tomlkit.table(is_super_table=True))
    setuptools.setdefault("packages", tomlkit.table(is_super_table=True))["find"] = find
    if modules := [Path(path).stem for path in layout.modules if path not in layout.code or not layout.packages]:
        setuptools["py-modules"] = modules
    file.write_bytes(tomlkit.dumps(document).encode())
    return Entry(
        "pyproject.toml", "merged", "[tool.setuptools] names your packages, so that your wheel contains no others"
    )
