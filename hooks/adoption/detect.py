"""The answers for a repository that exists already, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import filter as matching
from typing import Any

from family import frameworks
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from adoption.packages import IMPORTS, Packaging
from adoption.repository import AdoptError
from adoption.tree import Layout, Tree, layout_of

WEB = {
    "fastapi", "flask", "starlette", "litserve", "bentoml", "sanic", "aiohttp", "tornado", "falcon", "django", "quart",
    "litestar", "gradio", "grpcio", "streamlit", "dash", "chainlit",
}  # fmt: skip
SERVES = re.compile(r"\b(uvicorn|gunicorn|hypercorn|waitress-serve|flask run|litserve|streamlit run|chainlit run)\b")
JOBS = re.compile(r"train|main|sample|infer|predict|detect|generate|run|eval|test|export|val|embed|classify|finetune")
BRINGS = {  # packages that require a framework
    "torch": {
        "sentence_transformers", "fastai", "pytorch_lightning", "lightning", "torchmetrics", "accelerate", "peft",
        "ultralytics", "open_clip_torch", "segmentation_models_pytorch", "easyocr", "openai_whisper", "kornia", "monai",
    },
    "tensorflow": {"ktrain"},
}  # fmt: skip
CUDA = re.compile(  # how files name a version of CUDA
    r"(?:\bcu|cupy-cuda|-cu|cuda-?toolkit\s*[=<>~]+\s*|(?:cuda-version|pytorch-cuda)\s*[=<>~]+\s*|nvidia/cuda:|cuda)(\d{2})"
)
CUDA_FILES = re.compile(r"Dockerfile|ya?ml$|pyproject\.toml$|setup\.(py|cfg)$|requirements[\w.-]*\.(txt|in)$|Pipfile$")
CI = {"jenkins": "Jenkinsfile", "github": ".github/workflows/", "gitlab": ".gitlab-ci.yml"}


@dataclass(frozen=True)
class Answer:
    """An answer and why."""

    value: Any
    reason: str


def detect(
    tree: Tree, packaging: Packaging, folder_name: str, given: dict[str, str]
) -> tuple[dict[str, Answer], Layout]:
    """Return the answers with their reasons, and where the code is; the `given` answers count. Raises AdoptError."""
    named = packaging.name.lower() not in ("", "src", "app", "project")
    name = packaging.name if named else folder_name
    layout = layout_of(tree, packaging.name)
    kind = Answer(given["project_type"], "given") if "project_type" in given else project_type(tree, packaging, layout)
    called = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "old-code"
    called = f"ml-{called}"[:40] if called[0].isdigit() else called
    answers = {
        "project_type": kind,
        "project_name": Answer(called, "the name in its packaging" if named else "the folder's name"),
        "description": description(packaging, tree),
        "framework": framework(tree, packaging),
        "gpu_driver": gpu_driver(tree),
    }
    top = {path.split("/")[0].removesuffix(".py") for path in tree.paths} | set(layout.packages)
    base = layout.package if layout.package not in ("", "src", "app") else given.get("project_name", called)
    answers["package_name"] = Answer(
        new_package(base, kind.value, top), "a new package next to the code, so that it shadows nothing"
    )
    if kind.value != "library":
        answers["kubernetes"] = kubernetes(tree)
    found = [system for system, start in CI.items() if any(path.startswith(start) for path in tree.paths)]
    answers["ci"] = Answer(
        found or ["jenkins"], f"it has {', '.join(CI[one] for one in found)}" if found else "the default"
    )
    if (taken := given.get("package_name", "")) in top:
        raise AdoptError(f"package_name={taken}: the repository has {taken} already, and one would shadow the other")
    return answers | {name: Answer(value, "given") for name, value in given.items()}, layout


def project_type(tree: Tree, packaging: Packaging, layout: Layout) -> Answer:
    """Return service, batch or library with what speaks for it."""
    if served := serving(tree, packaging):
        return Answer("service", "; ".join(served))
    jobs = [name for name in layout.modules if JOBS.search(name) and name in tree.modules and tree.modules[name].main]
    library = [f"{', '.join(packaging.makers)} packages it"] * bool(packaging.makers)
    library += [f"its code is the package {layout.package}"] * bool(layout.package and layout.package != "src")
    library += ["it has tests"] * any(path.split("/")[0] in ("tests", "test") for path in tree.python)
    batch = [f"{name} is run as a program" for name in jobs[:3]] + ["conda sets it up"] * ("conda" in packaging.kinds)
    if packaging.makers and len(library) >= len(batch):
        return Answer("library", "; ".join(library))
    return Answer("batch", "; ".join([*batch, "nothing packages it"] if not packaging.makers else batch))


def serving(tree: Tree, packaging: Packaging) -> list[str]:
    """Return what shows that it serves, nothing if that is not enough: a library may have a demo server."""
    asked = {name.replace("-", "_") for name in packaging.names()}
    web = [f"{', '.join(sorted(asked & WEB))} is among its packages"] if asked & WEB else []
    if not web and (imported := sorted(WEB & tree.imports.keys())):
        web = [f"its code imports {', '.join(imported)}"]
    places = [path for path in tree.paths if re.search(r"(^|/)(Dockerfile|Procfile|[^/]*compose)[^/]*$", path)]
    docker = "\n".join(tree.text(path) for path in places)
    strong = [f"{path} has {app}" for path, one in tree.modules.items() for app in one.apps][:2]
    strong += [f"its containers run {found[0]}"] if (found := SERVES.search(docker)) else []
    if packaging.makers:
        return web + strong if asked & WEB and strong else []
    pages = [path for path, one in tree.modules.items() if one.imports & {"streamlit", "chainlit"}]
    strong += [f"{pages[0]} is a page"] if pages else []
    return web + strong if web and strong else []


def framework(tree: Tree, packaging: Packaging) -> Answer:
    """Return the framework by the packages required, then by the imports; plain if there is none."""
    asked = {name.replace("-", "_") for name in packaging.names()}
    known = {name: one for name, one in frameworks().items() if "imports" in one}
    counts = {name: sum(tree.imports[module] for module in one["imports"]) for name, one in known.items()}
    wants = {name: {n for pattern in one["packages"] for n in matching(asked, pattern)} for name, one in known.items()}
    itself = {name: asked & {name, f"{name}_gpu", f"{name}_cpu"} for name in known}
    best = max(counts, key=lambda name: (bool(itself[name]), counts[name], bool(wants[name])))
    guessed = bool(packaging.run) and all(one.source == IMPORTS for one in packaging.run)
    if wants[best] and not guessed:
        names = itself[best] or wants[best]
        line = next(one for one in packaging.run if one.name.replace("-", "_") in names)
        return Answer(best, f"{line.source} requires {line.requirement}; {counts[best]} files import it")
    for name in known:
        extras = {str(one.requirement) for one in packaging.run if name in one.requirement.extras}
        if brought := sorted((asked & BRINGS.get(name, set())) | extras):
            return Answer(name, f"{', '.join(brought).replace('_', '-')} requires it; {counts[name]} files import it")
    if counts[best] and (guessed or counts[best] * 3 >= len(tree.core)):
        return Answer(best, f"{counts[best]} of {len(tree.core)} files import it, though no file requires it")
    return Answer("plain", f"none of {', '.join(known)} is among its packages")


def gpu_driver(tree: Tree) -> Answer:
    """Return the oldest driver that the nodes may have, by the oldest CUDA that a file names."""
    found = []
    for path in tree.paths:
        if CUDA_FILES.search(path):
            text = re.sub(r"(?m)(^|\s)#.*$", r"\1", tree.text(path))
            found += [(int(number), path) for number in CUDA.findall(text) if 10 <= int(number) <= 13]
    if not found or min(found)[0] >= 13:
        return Answer("580", f"{min(found)[1]} names CUDA 13" if found else "no file names a version of CUDA")
    return Answer("525", f"{min(found)[1]} names CUDA {min(found)[0]}, so its nodes may have an older driver")


def kubernetes(tree: Tree) -> Answer:
    """Return whether it has objects for Kubernetes."""
    kinds = re.compile(r"(?m)^kind: *(Deployment|Job|CronJob|StatefulSet|Kustomization)\b")
    files = [path for path in tree.paths if path.endswith((".yaml", ".yml")) and not path.startswith(".")]
    found = next((path for path in files if path.endswith("Chart.yaml") or kinds.search(tree.text(path))), "")
    return Answer(bool(found), f"{found} is for Kubernetes" if found else "no file is for Kubernetes")


def description(packaging: Packaging, tree: Tree) -> Answer:
    """Return one line about it: from its packaging, else the first sentence of its README."""
    text, reason = packaging.description, "from its packaging"
    if not text.strip():
        page = next((tree.text(path) for path in tree.paths if re.fullmatch(r"(?i)readme\.\w+", path)), "")
        lines = [line.strip() for line in page.splitlines() if re.match(r"\s*[A-Za-z].{20}", line)]
        text, reason = (lines[0], "the first line of its README") if lines else ("", "nothing describes it")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    line = re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", re.sub(r"[`*]", "", text)).strip()
    return Answer(line[:200].strip() or "Code that was here before the template", reason)


def new_package(base: str, kind: str, taken: Iterable[str]) -> str:
    """Return a name for the template's package, which differs from every name that is there."""
    stem = re.sub(r"[^a-z0-9]+", "_", base.lower()).strip("_").lstrip("0123456789_")[:30] or "old_code"
    name = f"{stem}_{ {'service': 'service', 'batch': 'job', 'library': 'gpu'}[kind] }"
    while name in set(taken):
        name += "x"
    return name


def left_to_do(tree: Tree, packaging: Packaging) -> list[str]:
    """Return what no answer can settle."""
    found = list(packaging.to_do)
    try:
        fits = not packaging.python or "3.13.5" in SpecifierSet(packaging.python)
    except InvalidSpecifier:
        fits = False
    if not fits:
        found.append(f"requires-python is {packaging.python}, and the image has 3.13: try it there, and widen it")
    if tree.submodules:
        found.append(f"submodules ({', '.join(tree.submodules)}) stay as they are: CI has to check them out")
    return found
