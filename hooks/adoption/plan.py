"""What becomes of each file where the template meets a repository: new, merged, kept, or ours beside theirs."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from adoption.findings import Findings
from adoption.repository import AdoptError
from adoption.tree import PLAIN, Tree

MERGED = {
    ".gitignore": "their lines, then those of the template that are missing",
    ".dockerignore": "their lines, then those of the template",
}
BESIDE = {"Dockerfile": "image.Dockerfile"}
OPTIONAL = re.compile(  # without them the scripts still work, so the owner's file of that name stays
    r"Dockerfile|\.dockerignore|\.gitignore|Jenkinsfile|\.gitlab-ci\.yml|\.github/.*|\.devcontainer/.*|\.editorconfig|"
    r"\.pre-commit-config\.yaml|pytest\.ini|renovate\.json|ruff\.toml|README\.md|pyproject\.toml|compose(\.gpu)?\.yaml|"
    r"monitoring/.*|deploy/overlays/.*|tests/[^/]*\.py"
)


@dataclass(frozen=True)
class Entry:
    """One file of the template: `kind` is new, merged, kept, beside, taken, moved or same."""

    path: str
    kind: str
    how: str = ""


def other_settings(tree: Tree) -> dict[str, str]:
    """Return the files of the template that would shadow settings of the repository, and where those stand."""
    found = {}
    try:
        tool = tomllib.loads(tree.text("pyproject.toml")).get("tool", {})
    except tomllib.TOMLDecodeError:
        tool = {}
    if "pytest" in tool:
        found["pytest.ini"] = "pyproject.toml"
    for name, head in (
        ("setup.cfg", "tool:pytest"),
        ("tox.ini", "pytest"),
        ("pytest.toml", ""),
        (".pytest.ini", "pytest"),
    ):
        text = tree.text(name)
        if text and (not head or re.search(rf"(?m)^\[{re.escape(head)}\]", text)):
            found.setdefault("pytest.ini", name)
    if "ruff" in tool:
        found["ruff.toml"] = "pyproject.toml"
    if ".ruff.toml" in tree.paths:
        found["ruff.toml"] = ".ruff.toml"
    return found


def kept_paths(tree: Tree, rendered: list[str], taken: set[str]) -> dict[str, str]:
    """Return the paths of the template that stay the owner's, with the reason. Raises AdoptError."""
    theirs = {path.lower(): path for path in tree.paths}
    kept = {name: f"its settings stand in {where}" for name, where in other_settings(tree).items() if name in rendered}
    kept["pyproject.toml"] = "the packages to lock stand in a file of their own"
    if page := next((path for path in tree.paths if re.fullmatch(r"readme(\.(rst|txt|adoc|org))?", path.lower())), ""):
        kept["README.md"] = f"it would be shown in place of your {page}"
    blocked = _wrongly_taken(tree, rendered, taken)
    for path in rendered:
        there = theirs.get(path.lower())
        above = next((part for part in _parents(path) if part.lower() in theirs), "")
        if above:
            what = "a link" if theirs[above.lower()] in tree.links else "a file"
            blocked.append(f"{above} is {what}, and the template has a folder of that name")
        elif module := next((m for m in tree.submodules if _meet(m.lower(), path.lower())), ""):
            blocked.append(f"{module} is a submodule, and the template has files there")
        elif there and not OPTIONAL.fullmatch(path):
            blocked.append(f"{there} is a file of the template, too")
        elif any(name.lower().startswith(path.lower() + "/") for name in tree.paths):
            blocked.append(f"{path} is a folder, and the template has a file of that name")
        elif there and path not in MERGED and path not in taken:
            kept[path] = "you have this already"
    if "Dockerfile" in kept and ".dockerignore" in rendered:
        kept[".dockerignore"] = "it is about your Dockerfile"
    if blocked:
        raise AdoptError(
            f"{'; '.join([*dict.fromkeys(blocked)][:5])}: rename what is yours first (git mv), the scripts need theirs"
        )
    return {path: why for path, why in kept.items() if path not in taken or path == "pyproject.toml"}


def _meet(module: str, path: str) -> bool:
    """Tell whether a file would lie in a submodule, or stand where one is or the folder of one."""
    return f"{path}/".startswith(f"{module}/") or module.startswith(f"{path}/")


def _wrongly_taken(tree: Tree, rendered: list[str], taken: set[str]) -> list[str]:
    """Return what would go wrong with the files of theirs that are to make room. Raises AdoptError for no such file."""
    may = {path for path in rendered if OPTIONAL.fullmatch(path) and path not in ("pyproject.toml", *MERGED)}
    if strange := sorted(taken - may):
        there = sorted(may & set(tree.paths)) or ["none of yours"]
        raise AdoptError(f"TAKE={strange[0]}: this cannot make room; what can: {', '.join(there)}")
    before = [f"{path}.before" for path in sorted(taken & set(tree.paths)) if path != "README.md"]
    return [f"{path} is there already, where yours would go" for path in before if path in tree.paths]


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def twice_named(tree: Tree, rendered: list[str]) -> list[str]:
    """Return the folders of theirs that differ from one of the template's in capital letters alone."""
    ours = {path.split("/")[0] for path in rendered if "/" in path}
    return [name for name in tree.root_folders() if name not in ours and name.lower() in {one.lower() for one in ours}]


def shell_scripts(tree: Tree) -> list[str]:
    """Return the owner's shell scripts in scripts/: the lint of the template reads all that lie there."""
    here = [path for path in tree.paths if re.fullmatch(rf"scripts/{PLAIN.pattern}", path)]
    return [path for path in here if re.match(r"#!.*sh\s*$", tree.text(path).partition("\n")[0])]


def entries(tree: Tree, render: Path, kept: dict[str, str], taken: set[str]) -> list[Entry]:
    """Return what becomes of each file of the template, in the order of their names."""
    paths = sorted(str(path.relative_to(render)) for path in render.rglob("*") if path.is_file())
    found = []
    for path in paths:
        united = path in MERGED or path == "README.md"
        if path in tree.links and united and path not in kept:
            raise AdoptError(f"{path} is a link, and lines of the template have to go into it: make it a file first")
        if path not in tree.paths:
            found.append(Entry(path, "new"))
        elif path not in tree.links and (tree.folder / path).read_bytes() == (render / path).read_bytes():
            found.append(Entry(path, "same"))
        elif path in MERGED:
            found.append(Entry(path, "merged", MERGED[path]))
        elif path == "README.md":
            found.append(Entry(path, "merged", "all of yours, and a section about the scripts"))
        elif path in taken:
            found.append(Entry(path, "taken", f"the template's; yours goes to {path}.before"))
            found.append(Entry(f"{path}.before", "moved", f"your {path}, as it was"))
    for path, why in sorted(kept.items()):
        if path in BESIDE:
            found.append(Entry(path, "beside", f"{why}; the template's is {BESIDE[path]}"))
        elif path in tree.paths and not path.startswith("scripts/"):
            how = f"{why}; the template's comes in its place with TAKE={path}" if path != "pyproject.toml" else why
            found.append(Entry(path, "kept", how))
        elif path != "pyproject.toml" and not path.startswith("scripts/"):
            found.append(Entry(path, "kept", f"not written: {why}"))
    return sorted(found, key=lambda entry: entry.path)


def prefix(tree: Tree) -> str:
    """Return how the names of the files begin that scripts/lock reads."""
    taken = any(f"requirements{end}.in" in tree.paths for end in ("", "-gpu", "-dev"))
    return "image-requirements" if taken else "requirements"


def adopted(tree: Tree, findings: Findings, kept: dict[str, str]) -> dict[str, object]:
    """Return the answer that tells the template what was here before it."""
    answer: dict[str, object] = {
        "code": [
            path for path in findings.layout.code if not path.startswith("src/") or findings.layout.package == "src"
        ],
        "kept": sorted({*kept, *shell_scripts(tree)}),
        "requirements": prefix(tree),
        "baseline": True,
    }
    if findings.layout.package:
        answer["package"] = findings.layout.package
    return answer
