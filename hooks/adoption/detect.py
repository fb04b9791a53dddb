"""The answers for a repository that is there already, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

from family import frameworks
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from adoption.packaging_found import Packaging
from adoption.requirements import from_caret
from adoption.tree import ASIDE, Tree

WEB = {"fastapi", "flask", "starlette", "litserve", "bentoml", "sanic", "aiohttp", "tornado", "falcon", "robyn"}
SERVES = re.compile(r"\b(uvicorn|gunicorn|hypercorn|flask run|litserve|bentoml serve)\b")
JOBS = re.compile(
    r"(train|main|sample|infer|predict|detect|generate|run|eval|test|export|val|embed|classify|finetune|calc|dataset)"
)
CUDA = (
    (re.compile(r"\bcu(\d{2})(\d)\b"), "wheels for CUDA {}.{}"),
    (re.compile(r"pytorch-cuda\s*=+\s*(\d+)\.(\d+)"), "pytorch-cuda {}.{}"),
    (re.compile(r"cudatoolkit\s*=+\s*(\d+)\.(\d+)"), "cudatoolkit {}.{}"),
    (re.compile(r"nvidia/cuda:(\d+)\.(\d+)"), "an image of CUDA {}.{}"),
    (re.compile(r"pytorch/pytorch:\S*cuda(\d+)\.(\d+)"), "an image of PyTorch with CUDA {}.{}"),
)
PYTHONS = ("3.11", "3.12", "3.13")


@dataclass(frozen=True)
class Answer:
    """An answer and why; `sure` is False where a person should look."""

    value: Any
    reason: str


@dataclass
class Layout:
    """Where the code is."""

    kind: str  # src, flat, several, scripts, empty
    package: str = ""
    packages: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)


@dataclass
class Findings:
    """All that was found: the answers with their reasons, and facts that the plan needs."""

    answers: dict[str, Answer]
    layout: Layout
    packaging: Packaging
    facts: dict[str, str]
    warnings: list[str]


def layout_of(tree: Tree, packaging: Packaging) -> Layout:
    """Return where the code is: in src/, in packages at the root, or in scripts there."""
    modules = sorted(
        p for p in tree.python if "/" not in p and p not in ("setup.py", "conftest.py", "noxfile.py", "hubconf.py")
    )
    with_init = {path.rsplit("/", 1)[0] for path in tree.python if path.endswith("/__init__.py")}
    in_src = sorted({path.split("/")[1] for path in with_init if path.startswith("src/") and "src" not in with_init})
    code_files = [path for path in tree.core if not re.search(r"(^|/)(test_[^/]*|[^/]*_test)\.py$", path)]
    holds_code = {path.split("/")[0] for path in code_files if "/" in path} - {"src", "scripts", "tools"}
    flat = sorted(name for name in holds_code if name.lower() not in ASIDE and not name.startswith("."))
    used = flat  # one without __init__.py that nothing imports is code as well
    if "src" in with_init:
        used = sorted({*used, "src"})
    data = {
        path.split("/")[0] for path in tree.paths if "/" in path and path.endswith((".yaml", ".yml", ".json", ".toml"))
    }
    beside = sorted(name for name in data if name in ("config", "configs", "conf") and name not in used)
    code = [f"{name}/" for name in [*used, *beside]] + modules
    packages = in_src or used
    package = next(
        (name for name in packages if _named(name, packaging.name)), packages[0] if len(packages) == 1 else ""
    )
    if in_src:
        kind = "src" if len(in_src) == 1 else "several"
    else:
        kind = (
            "flat"
            if len(used) == 1 or package
            else "several"
            if used
            else "scripts"
            if modules or holds_code
            else "empty"
        )
    return Layout(kind, package, packages, code, modules)


def _named(folder: str, name: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return bool(plain) and re.sub(r"[^a-z0-9]", "", folder.lower()) == plain


def project_type(tree: Tree, packaging: Packaging, layout: Layout) -> Answer:
    """Return service, batch or library, by what speaks for each."""
    asked = {name.replace("-", "_") for name in packaging.packages.names()}
    docker = "\n".join(tree.text(path) for path in tree.paths if re.search(r"(^|/)(Dockerfile|.*compose)[^/]*$", path))
    apps = [f"{path} has {app}" for path, one in tree.modules.items() for app in one.apps]
    serving = [f"{', '.join(sorted(asked & WEB))} is among its packages"] if asked & WEB else []
    serving += apps[:2]
    serving += [f"its containers run {found[0]}"] if (found := SERVES.search(docker)) else []
    if len(serving) > 1 and (asked & WEB or not bool(packaging.makers)):
        return Answer("service", "; ".join(serving))
    library = [f"{', '.join(packaging.makers)} packages it"] * bool(packaging.makers)
    library += [f"its code is the package {layout.package}"] * bool(layout.package and layout.package != "src")
    library += ["it has tests"] * any(path.split("/")[0] in ("tests", "test") for path in tree.python)
    jobs = [
        name
        for name in layout.modules
        if JOBS.search(name) and tree.modules.get(name, None) and tree.modules[name].main
    ]
    batch = [f"{name} is run as a program" for name in jobs[:3]]
    batch += ["nothing packages it"] * (not bool(packaging.makers)) * 2
    batch += ["conda sets it up"] * any("env" in kind or "conda" in kind for kind in packaging.kinds)
    if len(library) >= len(batch) and bool(packaging.makers):
        return Answer("library", "; ".join(library))
    reasons = list(dict.fromkeys(batch)) or ["neither a web framework nor packaging was found"]
    return Answer("batch", "; ".join(reasons))


def framework(tree: Tree, packaging: Packaging) -> Answer:
    """Return the framework, plain where there is none, by the packages asked for and the imports of the code."""
    asked = {name.replace("-", "_") for name in packaging.packages.names()}
    known = {name: one for name, one in frameworks().items() if "imports" in one}
    counts = {name: sum(tree.imports[n] for n in one["imports"]) for name, one in known.items()}
    wants = {name: {n for pattern in one["packages"] for n in matching(asked, pattern)} for name, one in known.items()}
    best = max(counts, key=lambda name: (bool(wants[name]), counts[name]))
    if wants[best]:
        pins = [str(a.requirement) for a in packaging.packages.run if a.name == best]
        source = next((a.source for a in packaging.packages.run if a.name.replace("-", "_") in wants[best]), "")
        return Answer(
            best,
            f"{source} asks for {pins[0] if pins else ', '.join(sorted(wants[best]))}; {counts[best]} files import it",
        )
    if counts[best] and counts[best] * 3 >= len(tree.core):
        return Answer(best, f"{counts[best]} of {len(tree.core)} files import it, though no file asks for it")
    optional = (
        f" ({best} is imported by {counts[best]} of {len(tree.core)} files and asked for by none)"
        if counts[best]
        else ""
    )
    return Answer("plain", f"none of {', '.join(known)} is among its packages{optional}")


def cuda_wanted(tree: Tree, packaging: Packaging) -> tuple[str, int, int] | None:
    """Return the words and the number of the newest CUDA that its files name."""
    files = dict(packaging.texts)
    names = re.compile(r"(^|/)(Dockerfile[^/]*|[^/]*\.Dockerfile|[^/]*compose[^/]*\.ya?ml|pyproject\.toml|cog\.yaml)$")
    files |= {path: tree.text(path) for path in tree.paths if names.search(path)}
    found = []
    for path, text in files.items():
        for pattern, words in CUDA:
            for match in pattern.finditer(text):
                major, minor = int(match[1]), int(match[2])
                if 9 <= major <= 13:
                    found.append((f"{path} names {words.format(major, minor)}", major, minor))
    return max(found, key=lambda entry: entry[1:]) if found else None


def gpu_driver(wanted: tuple[str, int, int] | None) -> Answer:
    """Return the oldest driver that the nodes may have, by the CUDA that the repository names."""
    if wanted is None:
        return Answer("580", "no file names a CUDA version, so the newest image is right")
    if wanted[1] >= 13:
        return Answer("580", wanted[0])
    return Answer("525", f"{wanted[0]}, so its nodes may have an older driver; this image runs on newer ones, too")


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


def clean_name(text: str) -> str:
    """Return a text as a project's name: small letters, digits and single dashes."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789")
    return name[:40].strip("-") or "old-code"


def clean_description(packaging: Packaging, tree: Tree) -> Answer:
    """Return one line about it: what its packaging says, else the first sentence of its README."""
    text, reason = packaging.description, "its packaging says so"
    if not text.strip():
        readme = next((tree.text(p) for p in tree.paths if p.lower().startswith("readme.") and "/" not in p), "")
        plain = [
            line.strip() for line in readme.splitlines() if re.match(r"\s*[A-Za-z]", line) and len(line.strip()) > 20
        ]
        text, reason = (plain[0], "the first line of its README") if plain else ("", "nothing describes it")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    line = re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", re.sub(r"[`*]", "", text)).strip()
    return Answer(line[:200].strip() or "Code that was here before the template", reason)


def glue_name(base: str, kind: str, taken: Iterable[str]) -> str:
    """Return a name for the package between their code and the template's, that shadows nothing."""
    stem = re.sub(r"[^a-z0-9]+", "_", base.lower()).strip("_").lstrip("0123456789_")[:32] or "old_code"
    name = f"{stem}_{ {'service': 'service', 'batch': 'job', 'library': 'gpu'}[kind] }"
    while name in set(taken):
        name += "_"
        name = name.rstrip("_") + "x"
    return name


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
    project = given.get("project_name", answers["project_name"].value)
    top = {Path(path).stem for path in layout.modules} | set(tree.root_folders()) | set(layout.packages)
    glue = glue_name(layout.package if layout.package not in ("", "src", "app") else project, kind.value, top)
    answers["package_name"] = Answer(glue, "a package of its own beside the code, so that nothing is shadowed")
    if kind.value != "library":
        answers["kubernetes"] = kubernetes(tree, kind.value)
    answers["ci"] = ci(tree)
    answers |= {name: Answer(value, "given") for name, value in given.items()}
    warnings = [text for text in [python_fits(packaging)] if text]
    if packaging.extensions:
        warnings.append(
            "setup.py compiles extensions: images have no compiler, so build a wheel elsewhere and ask for it"
        )
    return Findings(answers, layout, packaging, facts_of(tree, packaging, layout, wanted), warnings)


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
        "empty": "no code",
    }
    return {
        "packaging": ", ".join(packaging.kinds) or "none",
        "layout": f"{layouts[layout.kind]}: {', '.join((layout.packages or layout.modules)[:5]) or 'nothing'}",
        "python": f"{packaging.python} ({packaging.python_source})" if packaging.python else "not said",
        "cuda": wanted[0] if wanted else "not said",
        "tests": f"{len(tests)} files, the first in {tests[0]}" if tests else "none",
        "ci files": ", ".join(text for path, text in ci.items() if any(p.startswith(path) for p in tree.paths))
        or "none",
        "containers": ", ".join(p for p in tree.paths if re.search(r"(^|/)Dockerfile[^/]*$", p)) or "none",
    }
