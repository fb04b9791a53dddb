"""The answers for a repository that is there already, each with its reason."""

from __future__ import annotations

import re
from pathlib import Path

from gpu_repo_runtime import project
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from adoption.cuda import cuda_wanted, gpu_driver
from adoption.findings import Answer, Findings, Layout
from adoption.kind import framework, project_type
from adoption.layout import layout_of
from adoption.names import clean_description, clean_name, glue_name
from adoption.packaged import Packaging
from adoption.repository import AdoptError
from adoption.requirements import from_caret
from adoption.texts import named
from adoption.tree import ASIDE, Tree

PYTHONS = ("3.11", "3.12", "3.13")


def python_fits(packaging: Packaging) -> str:
    """Return what is wrong with its Python, "" where 3.11 to 3.13 fit."""
    if not packaging.python:
        return ""
    try:
        wanted = SpecifierSet(from_caret(packaging.python))
    except InvalidSpecifier:
        return f"{packaging.python_source} asks for Python {packaging.python}, which cannot be read"
    fits = [version for version in PYTHONS if wanted.contains(f"{version}.5")]
    if "3.13" in fits:
        return ""
    return (
        f"{packaging.python_source} asks for Python {packaging.python}, the image has 3.13: try it there, and widen it"
    )


def kubernetes(tree: Tree, kind: str) -> Answer:
    """Return whether it has objects for Kubernetes."""
    files = [p for p in tree.paths if p.endswith((".yaml", ".yml")) and not p.startswith((".github/", "."))]
    found = next(
        (
            p
            for p in files
            if re.search(r"(?m)^kind: *(Deployment|Job|CronJob|StatefulSet|Kustomization)\b", tree.text(p))
        ),
        "",
    )
    chart = next((p for p in tree.paths if p.endswith("Chart.yaml")), "")
    if found or chart:
        return Answer(True, f"{found or chart} is for Kubernetes")
    return Answer(False, "no file is for Kubernetes")


def ci(tree: Tree) -> Answer:
    """Return the CI systems that it has a file for, of those that the template knows."""
    known = {"jenkins": "Jenkinsfile", "github": ".github/workflows/", "gitlab": ".gitlab-ci.yml"}
    found = [name for name, start in known.items() if any(path.startswith(start) for path in tree.paths)]
    if found:
        return Answer(found, f"{', '.join(known[name] for name in found)}: yours, which stay beside the template's")
    return Answer(["jenkins"], "no file of a CI that the template knows")


def detect(tree: Tree, packaging: Packaging, folder_name: str, given: dict[str, str]) -> Findings:
    """Return answers, reasons and facts; what is `given` stands as it is."""
    layout = layout_of(tree, packaging)
    kind = Answer(given["project_type"], "given") if "project_type" in given else project_type(tree, packaging, layout)
    name = packaging.name if packaging.name.lower() not in ("", "src", "app", "project") else folder_name
    wanted = cuda_wanted(tree, packaging)
    answers = {
        "project_type": kind,
        "project_name": Answer(
            clean_name(name), "its packaging's name" if name == packaging.name else "the folder's name"
        ),
        "description": clean_description(packaging, tree),
        "framework": framework(tree, packaging),
        "gpu_driver": gpu_driver(wanted),
    }
    called = given.get("project_name", answers["project_name"].value)
    top = {Path(path).stem for path in layout.modules} | set(tree.root_folders()) | set(layout.packages)
    glue = glue_name(layout.package if layout.package not in ("", "src", "app") else called, kind.value, top)
    answers["package_name"] = Answer(glue, "a package of its own beside the code, so that nothing is shadowed")
    if kind.value != "library":
        answers["kubernetes"] = kubernetes(tree, kind.value)
    answers["ci"] = ci(tree)
    if (taken := given.get("package_name", "")) in top:
        raise AdoptError(f"package_name={taken}: {taken} is a name of yours already, which one of the two would shadow")
    answers |= {name: Answer(value, "given") for name, value in given.items()}
    warnings = [*([text] if (text := python_fits(packaging)) else []), *packaging.notes]
    if ".cruft.json" in tree.paths:
        warnings.append(
            ".cruft.json: cruft brings updates of another template, and two would own the same files: delete it if "
            "that one is to bring no more"
        )
    if packaging.extensions:
        warnings.append(
            "setup.py compiles extensions: images have no compiler, so build a wheel elsewhere and ask for it"
        )
    return Findings(
        answers, layout, packaging, facts_of(tree, packaging, layout, wanted), warnings, left_to_do(tree, packaging)
    )


def left_to_do(tree: Tree, packaging: Packaging) -> list[str]:
    """Return what no answer can settle."""
    found = []
    if tree.odd:
        found.append(
            f"{named(tree.odd)}: the name has letters that scripts and images do not take (a space, a quote, what is "
            "not UTF-8), so they leave it out: git mv it, and name it in the answer adopted"
        )
    if asking := unanswered(tree, packaging.name):
        found.append(
            f"{asking} asks for the version of the package {packaging.name} as it is installed, and neither "
            "pyproject.toml nor setup.cfg or setup.py says it in plain words, so that scripts and images answer "
            f"{project.UNKNOWN}: write it there, or let the code go on after PackageNotFoundError"
        )
    if projects := projects_in(tree):
        found.append(
            f"{named(projects)} are projects of their own, and the template makes one of all: to let one join alone, "
            f"take it out first (git subtree split --prefix={projects[0]})"
        )
    return found


def unanswered(tree: Tree, name: str) -> str:
    """Return a file of code that asks for a version of its own package that its files do not tell, "" for none."""
    asking = [path for path in tree.core if asks_for_itself(tree.text(path), name)]
    found = project.read(tree.folder) if asking else None
    known = found is not None and canonicalize_name(found.name) == canonicalize_name(name)
    return "" if not asking or (known and found and found.version != project.UNKNOWN) else asking[0]


def asks_for_itself(text: str, name: str) -> bool:
    """Tell whether code asks for the version of its own installed package, and cannot do without."""
    if not name or "PackageNotFoundError" in text or "DistributionNotFound" in text:
        return False
    own = rf"([\"']{re.escape(name)}[\"']|__package__|__name__(\.split\([^)]*\)\[0\])?)"
    asked = re.search(rf"\b(version|metadata|distribution|get_distribution|require)\(\s*{own}\s*\)", text)
    return bool(asked and re.search(r"importlib(\.|_| import )metadata|pkg_resources", text))


def projects_in(tree: Tree) -> list[str]:
    """Return the folders that are packaged each for itself, where nothing packages the whole."""
    makers = ("setup.py", "setup.cfg", "pyproject.toml")
    if any(name in tree.paths for name in makers):
        return []
    folders = {path.rpartition("/")[0] for path in tree.paths if path.rpartition("/")[2] in makers and "/" in path}
    own = sorted(name for name in folders if not ASIDE & set(name.lower().split("/")) and name.count("/") < 3)
    return own if len(own) > 1 else []


def facts_of(tree: Tree, packaging: Packaging, layout: Layout, wanted: tuple[str, int, int] | None) -> dict[str, str]:
    """Return what else was found, in words."""
    ci = {
        ".github/workflows/": "GitHub Actions",
        ".gitlab-ci.yml": "GitLab CI",
        "Jenkinsfile": "Jenkins",
        ".travis.yml": "Travis CI",
        ".circleci/": "CircleCI",
        "azure-pipelines.yml": "Azure Pipelines",
    }
    tests = [path for path in tree.python if re.search(r"(^|/)(test_[^/]*|[^/]*_test)\.py$", path)]
    layouts = {
        "src": "in src/",
        "flat": "at the root",
        "several": "several packages",
        "scripts": "scripts only",
        "notebooks": "notebooks only",
        "empty": "no code",
    }
    code = layout.packages or layout.modules or tree.notebooks
    return {
        "packaging": ", ".join(packaging.kinds) or "none",
        "layout": f"{layouts[layout.kind]}: {', '.join(code[:5]) or 'nothing'}",
        "python": f"{packaging.python} ({packaging.python_source})" if packaging.python else "not said",
        "cuda": wanted[0] if wanted else "not said",
        "tests": f"{len(tests)} files, the first in {tests[0]}" if tests else "none",
        "ci files": ", ".join(text for path, text in ci.items() if any(p.startswith(path) for p in tree.paths))
        or "none",
        "containers": ", ".join(p for p in tree.paths if re.search(r"(^|/)Dockerfile[^/]*$", p)) or "none",
    }
