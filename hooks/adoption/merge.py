"""Files that both have: theirs whole, with what the template adds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path

import tomlkit
from gpu_repo_runtime.update.git_calls import call, git
from gpu_repo_runtime.update.outcome import JOINED

from adoption.findings import Findings
from adoption.repository import AdoptError
from adoption.tree import Tree

HEAD = JOINED.decode().rstrip()
WHOLE = {"scripts", "deploy", ".devcontainer"}  # folders of the template, to which later versions add


def read(file: Path) -> str:
    """Return a file with its line ends and its bytes as they are."""
    return file.read_bytes().decode("utf-8", errors="surrogateescape")


def write(file: Path, text: str) -> None:
    """Write what `read` gave. Raises AdoptError for a link: what it leads to is another file."""
    if file.is_symlink():
        raise AdoptError(f"{file.name} is a link, and lines of the template have to go into it: make it a file first")
    file.write_bytes(text.encode("utf-8", errors="surrogateescape"))


def united(theirs: str, ours: str) -> str:
    """Return the lines of theirs, then ours as one piece, into which an update can merge what the template adds.

    Where all of theirs end with CRLF, so does the piece: an update knows a file of CRLF, and none of both.
    """
    if theirs and theirs.count("\r\n") == theirs.count("\n") > 0:
        return united(theirs.replace("\r\n", "\n"), ours).replace("\n", "\r\n")
    known = {line.strip() for line in theirs.splitlines()}
    if all(line.strip() in known for line in ours.splitlines() if line.strip()):
        return theirs
    return f"{theirs}{'' if theirs.endswith(chr(10)) or not theirs else chr(10)}\n{HEAD}\n{ours}"


def unignored(clone: Path, paths: list[str]) -> None:
    """Let .gitignore say that files of the template are not meant where a pattern of the owner's matches them."""
    for _ in range(8):  # a folder must be let in before what lies in it can be
        given = "".join(f"{path}\0" for path in paths)
        done = call(clone, "check-ignore", "--no-index", "-z", "--stdin", stdin=given.encode())
        ignored = [path for path in done.stdout.decode(errors="surrogateescape").split("\0") if path]
        if not ignored:
            return
        lines: list[str] = []
        for path in ignored:
            parts = path.split("/")
            lines += [f"!/{'/'.join(parts[: number + 1])}/" for number in range(len(parts) - 1)] + [f"!/{path}"]
        file = clone / ".gitignore"
        text = read(file) if file.exists() else ""
        more = [line for line in dict.fromkeys(lines) if line not in text.splitlines()]
        if not more:
            return
        windows = text.count("\r\n") == text.count("\n") > 0
        own, head, rest = (text.replace("\r\n", "\n") if windows else text).partition(f"{HEAD}\n")
        text = f"{own}{chr(10).join(more)}\n{head}{rest}" if head else f"{own}\n{chr(10).join(more)}\n"
        write(file, text.replace("\n", "\r\n") if windows else text)


def kept_out_of_lfs(clone: Path, paths: list[str]) -> list[str]:
    """Keep files of the template out of Git LFS, which may take them by their names; return the lines that say so."""
    given = "".join(f"{path}\0" for path in paths)
    rows = git(clone, "check-attr", "-z", "--stdin", "filter", stdin=given).split("\0")
    caught = [path for path, value in zip(rows[::3], rows[2::3], strict=False) if value == "lfs"]
    names = [f"/{path.split('-')[0]}*.whl" if path.endswith(".whl") else f"/{path}" for path in caught]
    lines = [f"{name} -filter -diff -merge" for name in names]
    if lines:
        file = clone / ".gitattributes"
        text = read(file) if file.exists() else ""
        write(file, united(text, "\n".join(dict.fromkeys(lines))))
    return lines


def kept_binary(clone: Path, paths: list[str]) -> None:
    """Keep what is binary of the template's files from attributes that take every file for text."""
    binary = [path for path in paths if b"\0" in (clone / path).read_bytes()]
    given = "".join(f"{path}\0" for path in binary)
    rows = git(clone, "check-attr", "-z", "--stdin", "text", "eol", stdin=given).split("\0")
    taken = {
        path for path, name, value in zip(rows[::3], rows[1::3], rows[2::3], strict=False)
        if value == "set" or (name == "eol" and value in ("lf", "crlf"))
    }  # fmt: skip
    names = {f"/{path.split('-')[0]}*.whl" if path.endswith(".whl") else f"/{path}" for path in taken}
    if names:
        file = clone / ".gitattributes"
        write(file, united(read(file), "\n".join(f"{name} -text -eol" for name in sorted(names))))


def kept_from_crlf(clone: Path, paths: list[str], theirs: Collection[str] = (), automatic: bool = False) -> list[str]:
    """Keep the line ends of the template's files where they would be checked out with CRLF.

    That is where the owner's attributes say so, and with core.autocrlf (`automatic`) for every text. A folder of the
    template in which nothing is theirs has one line, which is for what later versions bring as well.
    """
    given = "".join(f"{path}\0" for path in paths)
    rows = git(clone, "check-attr", "-z", "--stdin", "eol", stdin=given).split("\0")
    wanted = ("crlf", "unspecified") if automatic else ("crlf",)
    caught = [path for path, value in zip(rows[::3], rows[2::3], strict=False) if value in wanted]
    if automatic:
        caught = [path for path in caught if b"\0" not in (clone / path).read_bytes()]
        whole = WHOLE - {path.split("/")[0] for path in theirs}
        caught = [f"{top}/**" if (top := path.split("/")[0]) in whole and top != path else path for path in caught]
    lines = [f"/{name} {'text ' if automatic else ''}eol=lf" for name in dict.fromkeys(caught)]
    if lines:
        file = clone / ".gitattributes"
        write(file, united(read(file) if file.exists() else "", "\n".join(lines)))
    return lines


def found_packages(clone: Path, findings: Findings, glue: str) -> str:
    """Say in pyproject.toml which packages the owner's wheel holds, where setuptools would take others, too.

    Returns what was written, "" where nothing had to be.
    """
    file, layout = clone / "pyproject.toml", findings.layout
    legacy = not findings.packaging.backend and "setup.py" in findings.packaging.makers
    if findings.packaging.explicit or not (legacy or "setuptools" in findings.packaging.backend):
        return ""
    document = tomlkit.parse(read(file)) if file.is_file() else tomlkit.document()
    if "project" not in document:  # with the table alone, setuptools would take the file for the whole of the metadata
        return ""
    if layout.kind == "src":
        find: dict[str, object] = {"where": ["src"], "exclude": [f"{glue}*"]}
    elif layout.packages:
        find = {"include": [name for package in layout.packages for name in (package, f"{package}.*")]}
    else:
        find = {"include": []}
    tool = document.setdefault("tool", tomlkit.table(is_super_table=True))
    setuptools = tool.setdefault("setuptools", tomlkit.table(is_super_table=True))
    packages = setuptools.setdefault("packages", tomlkit.table(is_super_table=True))
    table = tomlkit.table()
    for key, value in find.items():
        table.add(key, value)
    packages["find"] = table
    if layout.kind != "src" and not layout.packages and layout.modules and "py-modules" not in setuptools:
        del packages["find"]
        del setuptools["packages"]
        own = tomlkit.table()
        own.add("py-modules", [name.removesuffix(".py") for name in layout.modules])
        tool["setuptools"] = own
    if modules := sorted(path.stem for path in (clone / "src").glob("*.py")) if layout.kind == "src" else []:
        setuptools.add("py-modules", modules)  # which a table of packages would switch off
    text = tomlkit.dumps(document)
    write(file, re.sub(r"\r?\n", "\r\n", text) if "\r\n" in read(file) else text)
    return "[tool.setuptools] says which packages are yours, so that the template's folders stay out of your wheel"


def searched(tree: Tree, findings: Findings, glue: str) -> str:
    """Return what is left to do where the owner's packaging searches for packages where the template has its own."""
    if name := _found_by(tree.text("pyproject.toml"), glue):
        return f"pyproject.toml searches for packages: let it exclude {name}*, else your wheel holds src/{glue}"
    said = {"setup.cfg": r"find(?:_namespace)?:(?:.*\n)*", "setup.py": r"find(?:_namespace)?_packages\([^)]*\)"}
    for path, pattern in said.items():
        found = re.search(pattern, tree.text(path))
        wide = found and ("namespace" in found[0] or re.search(r"[\"'= ]src\b", found[0]))
        if found and wide and glue not in found[0]:
            return f"{path} searches for packages: let it exclude {glue}*, else your wheel holds src/{glue}"
    if not findings.packaging.explicit and findings.packaging.makers == ["setup.py"]:
        return f"setup.py does not say which packages are yours: add packages=, else your wheel may hold src/{glue}"
    return ""


def _found_by(pyproject: str, glue: str) -> str:
    """Return what the search that pyproject.toml asks setuptools for finds of the template's, "" for nothing."""
    try:
        find = tomllib.loads(pyproject).get("tool", {}).get("setuptools", {}).get("packages", {}).get("find")
    except (tomllib.TOMLDecodeError, AttributeError):
        return ""
    if not isinstance(find, dict):
        return ""
    where = {str(place).rstrip("/") for place in find.get("where", ["."])}
    names = [glue] if where & {"src", "./src"} else []
    names += [f"src.{glue}"] if where & {".", ""} and find.get("namespaces", True) else []
    for name in names:
        taken, out = (
            any(fnmatch(name, str(pattern)) for pattern in find.get(key, default))
            for key, default in (("include", ["*"]), ("exclude", []))
        )
        if taken and not out:
            return name.partition(".")[0]
    return ""


def section(project: str) -> str:
    """Return what a README says about working on a repository that joined."""
    return f"""
## Working on it

`scripts/setup` makes the environment, `scripts/test` and `scripts/lint` check it, `scripts/build` makes the image of
{project}, `scripts/smoke` tries it on a GPU, `scripts/lock` resolves the packages, `scripts/update` brings the fixes of
the template.
"""


def test_settings(tree: Tree, text: str) -> str:
    """Return pytest.ini with the folders and the marks of the tests that were there."""
    tests = [path for path in tree.python if re.search(r"(^|/)(test_[^/]*|[^/]*_test)\.py$", path)]
    folders = {_test_folder(path) for path in tests} - {"tests", ""}
    folders = {name for name in folders if not any(name.startswith(f"{other}/") for other in {*folders, "tests"})}
    asides = re.compile(r"(^|/)(third_party|examples?|docs?|evals|tools|notebooks?|node_modules)(/|$)")
    more = sorted(name for name in folders if not asides.search(name))
    marks = {m for path in tests for m in re.findall(r"pytest\.mark\.([A-Za-z_]\w*)", tree.text(path))}
    marks -= {"parametrize", "skip", "skipif", "xfail", "usefixtures", "filterwarnings", "tryfirst", "trylast"}
    more += sorted(path for path in tests if "/" not in path)
    if more:
        text = text.replace("testpaths = tests\n", f"testpaths = tests {' '.join(more)}\n")
    if "__init__.py" in tree.paths and "conftest.py" not in tree.paths:  # else pytest imports the root for each test
        text = text.replace("addopts = ", "addopts = --confcutdir=tests ")
    if marks:
        text += "markers =\n" + "".join(
            f"    {mark}: of the tests that were here before the template\n" for mark in sorted(marks)
        )
    return text


def _test_folder(path: str) -> str:
    parts = path.split("/")[:-1]
    named = next((number for number, part in enumerate(parts) if part in ("tests", "test", "testing")), len(parts) - 1)
    return "/".join(parts[: named + 1])


def pointed(text: str, findings: Findings) -> str:
    """Return the template's model.py with a line about where the owner's code is."""
    names = findings.layout.packages or [Path(name).stem for name in findings.layout.modules]
    names = [name for name in names if name.isidentifier()][:6]
    if not names:
        return text
    head, end, rest = text.partition('"""\n')
    return f"{head}{end}\n# Your code from before can be imported here: {', '.join(names)}.\n{rest}" if end else text
