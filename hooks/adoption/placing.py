"""What becomes of each file where the template meets a repository: new, merged, kept, or next to the owner's."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from adoption.packages import toml_of
from adoption.repository import AdoptError
from adoption.tree import PLAIN, Layout, Tree

HEAD = "# from the template"  # an update merges what stands below this line
BASELINE = "ruff-baseline.toml"
COMMENT = "Files from before the template, which scripts/lint leaves out. Remove a line to check its file."
OPTIONAL = re.compile(  # without these the scripts still work, so the owner's file of that name stays
    r"Dockerfile|\.dockerignore|\.gitignore|Jenkinsfile|\.gitlab-ci\.yml|\.github/.*|\.devcontainer/.*|\.editorconfig|"
    r"\.pre-commit-config\.yaml|pytest\.ini|renovate\.json|ruff\.toml|README\.md|LICENSE|pyproject\.toml|compose(\.gpu)?\.yaml|"
    r"monitoring/.*|deploy/overlays/.*|tests/[^/]*\.py|mkdocs\.yml|docs/.*|\.vscode/.*"
)
PAGES = {"README.md": r"(?i)readme(\.(md|rst|txt|adoc|org))?", "LICENSE": r"(?i)(licen[cs]e|copying)([-.]\w+)?"}
ASIDE = re.compile(r"(^|/)(third_party|examples?|docs?|evals|tools|notebooks?)(/|$)")


@dataclass(frozen=True)
class Entry:
    """One file of the template: `kind` is new, merged, kept, left out, both or same."""

    path: str
    kind: str
    how: str = ""


def files_in(folder: Path) -> list[str]:
    """Return the paths of all files in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def own_settings(tree: Tree) -> dict[str, str]:
    """Return the files of the template that would hide settings of the repository, with where those are."""
    tool = toml_of(tree.text("pyproject.toml")).get("tool", {})
    found = {f"{name}.{end}": "pyproject.toml" for name, end in (("pytest", "ini"), ("ruff", "toml")) if name in tool}
    for name, section in (("setup.cfg", "[tool:pytest]"), ("tox.ini", "[pytest]")):
        if section in tree.text(name):
            found.setdefault("pytest.ini", name)
    return found | ({"ruff.toml": ".ruff.toml"} if ".ruff.toml" in tree.paths else {})


def kept_paths(tree: Tree, rendered: list[str]) -> dict[str, str]:
    """Return the paths of the template that stay the owner's, with the reason. Raises AdoptError."""
    theirs = {path.lower(): path for path in tree.paths}
    kept = {name: f"your settings are in {where}" for name, where in own_settings(tree).items() if name in rendered}
    kept["pyproject.toml"] = "adoption changes no packaging"
    for name, pattern in PAGES.items():
        if page := next((path for path in tree.paths if re.fullmatch(pattern, path)), ""):
            kept[name] = f"yours is {page}"
    blocked = []
    for path in rendered:
        there = theirs.get(path.lower(), "")
        above = [theirs[part.lower()] for part in map(str, Path(path).parents) if part.lower() in theirs]
        if above or (there and not OPTIONAL.fullmatch(path)) or (tree.folder / path).is_symlink():
            blocked.append(f"{(above or [there])[0]} is where the template has {path}")
        elif there and path != ".gitignore":
            kept.setdefault(path, "you have this already")
    if {"Dockerfile", ".dockerignore"} & kept.keys():  # one belongs to the other
        kept |= dict.fromkeys({"Dockerfile", ".dockerignore"} & {*rendered}, "you have a Dockerfile or .dockerignore")
    if blocked:
        raise AdoptError(f"{'; '.join(blocked[:5])}: rename yours first (git mv), the scripts need theirs")
    return kept


def answer_of(tree: Tree, layout: Layout, kept: dict[str, str], asks: bool) -> dict[str, Any]:
    """Return the answer `adopted`, which tells the template what was here before it."""
    scripts = [path for path in tree.paths if re.fullmatch(rf"scripts/{PLAIN.pattern}", path)]
    shell = [path for path in scripts if re.match(r"#!.*sh\s*$", tree.text(path).partition("\n")[0])]
    taken = any(re.fullmatch(r"requirements(-gpu|-dev)?\.in", path) for path in tree.paths)
    folders = {re.sub(r"((^|/)(tests?|testing))/.*", r"\1", str(Path(path).parent)) for path in tree.tests} - {"."}
    answer = {
        "asks": asks,
        "baseline": True,
        "code": [path for path in layout.code if not path.startswith("src/") or layout.package == "src"],
        "kept": sorted({*kept, *shell}),
        "package": layout.package,
        "requirements": "image-requirements" if taken else "requirements",
        "tests": sorted(folder for folder in folders - {"tests"} if not ASIDE.search(folder)),
    }
    return {name: value for name, value in answer.items() if value}


def place(clone: Path, render: Path, tree: Tree, kept: dict[str, str]) -> list[Entry]:
    """Write the files of the template into the clone; return what became of each. Raises OSError."""
    found = []
    for path in files_in(render):
        source, target = render / path, clone / path
        if path not in tree.paths:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
            found.append(Entry(path, "new"))
        elif target.read_bytes() == source.read_bytes():
            found.append(Entry(path, "same"))
        else:
            target.write_bytes(united(target.read_bytes(), source.read_bytes()))
            found.append(Entry(path, "merged", "your lines, then those of the template"))
    for path, why in kept.items():
        kind = "both" if path == "Dockerfile" else "kept" if path in tree.paths else "left out"
        found.append(Entry(path, kind, why + "; the template's is image.Dockerfile" * (kind == "both")))
    return [*found, write_baseline(clone, tree, [entry.path for entry in found if entry.kind == "new"])]


def united(theirs: bytes, ours: bytes) -> bytes:
    """Return the owner's lines, then the template's as one block with the owner's line ends."""
    end = b"" if theirs.endswith(b"\n") or not theirs else b"\n"
    block = end + f"\n{HEAD}\n".encode() + ours
    return theirs + (block.replace(b"\n", b"\r\n") if theirs.count(b"\r\n") == theirs.count(b"\n") > 0 else block)


def write_baseline(clone: Path, tree: Tree, new: list[str]) -> Entry:
    """Write the files that lint leaves out, on top of the owner's settings of ruff: those from before the template.

    The owner's rules may be stricter than the template's, so with them its `new` files are left out, too.
    """
    files = [path for path in tree.paths if path.endswith((".py", ".pyi", ".ipynb", ".md"))]
    own = own_settings(tree).get("ruff.toml", "ruff.toml" if "ruff.toml" in tree.paths else "")
    document = tomlkit.document()
    document.add(tomlkit.comment(COMMENT))
    if own:
        document.add("extend", own)
    names = [*files, *tree.submodules, *(path for path in new if own and path.endswith(".py"))]
    excluded = tomlkit.array()
    excluded.extend(re.sub(r"[\ud800-\udfff]", "?", re.sub(r"([\[\]*?{}!])", r"[\1]", name)) for name in names)
    document.add("extend-exclude", excluded.multiline(True))
    (clone / BASELINE).write_text(tomlkit.dumps(document), encoding="utf-8")
    return Entry(BASELINE, "new", f"lint leaves out {len(files)} files from before")
