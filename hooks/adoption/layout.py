"""Where the code of a repository is: in src/, in packages at the root, in scripts or in notebooks."""

from __future__ import annotations

import re

from adoption.findings import Layout
from adoption.packaged import Packaging
from adoption.tree import ASIDE, Tree


def layout_of(tree: Tree, packaging: Packaging) -> Layout:
    """Return where the code is: in src/, in packages at the root, or in scripts there."""
    modules = sorted(
        p for p in tree.python if "/" not in p and p not in ("setup.py", "conftest.py", "noxfile.py", "hubconf.py")
    )
    with_init = {path.rsplit("/", 1)[0] for path in tree.python if path.endswith("/__init__.py")}
    in_src = sorted({path.split("/")[1] for path in with_init if path.startswith("src/") and "src" not in with_init})
    code_files = [path for path in tree.core if not re.search(r"(^|/)(test_[^/]*|[^/]*_test)\.py$", path)]
    loose = sorted(path for path in code_files if re.fullmatch(r"src/[^/]+\.py", path))
    if not in_src and "src" not in with_init:  # what lies in src/ is found there with or without an __init__.py
        in_src = sorted({path.split("/")[1] for path in code_files if re.match(r"src/[^/]+/", path)})
    holds_code = {path.split("/")[0] for path in code_files if "/" in path} - {"src", "scripts", "tools"}
    flat = sorted(name for name in holds_code if name.lower() not in ASIDE and not name.startswith("."))
    used = flat  # one without __init__.py that nothing imports is code as well
    if "src" in with_init:
        used = sorted({*used, "src"})
    data = {
        path.split("/")[0] for path in tree.paths if "/" in path and path.endswith((".yaml", ".yml", ".json", ".toml"))
    }
    beside = sorted(name for name in data if name in ("config", "configs", "conf") and name not in used)
    code = [f"{name}/" for name in [*used, *beside]] + modules  # of the root: src/ is code in every repository
    packages = in_src or used
    package = next(
        (name for name in packages if _named(name, packaging.name)), packages[0] if len(packages) == 1 else ""
    )
    if in_src or (loose and not used):
        kind = "several" if len(in_src) > 1 else "src"
        modules += loose
    else:
        kind = (
            "flat"
            if len(used) == 1 or package
            else "several"
            if used
            else "scripts"
            if modules or holds_code
            else "notebooks"
            if tree.notebooks
            else "empty"
        )
    return Layout(kind, package, packages, code, modules)


def _named(folder: str, name: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return bool(plain) and re.sub(r"[^a-z0-9]", "", folder.lower()) == plain
