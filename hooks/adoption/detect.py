"""The answers for a repository that exists already, each with its reason."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import filter as matching
from typing import Any

from family import frameworks
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from adoption.packages import Packaging
from adoption.repository import AdoptError
from adoption.tree import Layout, Tree

WEB = {"fastapi", "flask", "starlette", "litserve", "aiohttp", "django", "quart", "litestar", "gradio", "streamlit"}
SERVES = re.compile(r"\b(uvicorn|gunicorn|hypercorn|waitress-serve|flask run|litserve|streamlit run|chainlit run)\b")
JOBS = re.compile(r"train|main|sample|infer|predict|detect|generate|run|eval|test|export|val|embed|classify|finetune")
BRING_TORCH = {
    "sentence_transformers", "fastai", "pytorch_lightning", "lightning", "torchmetrics", "accelerate", "peft",
    "ultralytics", "open_clip_torch", "segmentation_models_pytorch", "easyocr", "openai_whisper", "kornia", "monai",
}  # fmt: skip
CLUSTER = re.compile(r"(k8s|kubernetes|helm|charts?)/.*\.ya?ml")
CI = {"jenkins": "Jenkinsfile", "github": ".github/workflows/", "gitlab": ".gitlab-ci.yml"}


@dataclass(frozen=True)
class Answer:
    """An answer and why."""

    value: Any
    reason: str


def detect(
    tree: Tree, packaging: Packaging, layout: Layout, folder_name: str, given: dict[str, str]
) -> dict[str, Answer]:
    """Return the answers with their reasons; the `given` answers count. Raises AdoptError."""
    is_named = packaging.name.lower() not in ("", "src", "app", "project")
    called = (
        re.sub(r"[^a-z0-9]+", "-", (packaging.name if is_named else folder_name).lower()).strip("-")[:37].strip("-")
    )
    called = f"ml-{called}" if not called[:1].isalpha() else called
    kind = Answer(given["project_type"], "given") if "project_type" in given else project_type(tree, packaging, layout)
    top = {path.split("/")[0].removesuffix(".py") for path in tree.paths} | set(layout.packages)
    base = layout.package if layout.package not in ("", "src", "app") else given.get("project_name", called)
    about = " ".join("".join(one if one.isprintable() else " " for one in packaging.description).split())[:200].strip()
    answers = {
        "project_type": kind,
        "project_name": Answer(called, "the name in its packaging" if is_named else "the folder's name"),
        "description": Answer(
            about or "Code from before the template", "its packaging" if about else "nothing says more"
        ),
        "framework": framework(tree, packaging),
        "gpu_driver": Answer("580", "the default; nvidia-smi on a node shows its driver"),
        "package_name": Answer(new_package(base, kind.value, top), "a new package next to the code, shadowing nothing"),
    }
    if kind.value != "library":
        file = next((path for path in tree.paths if CLUSTER.search(path)), "")
        answers["kubernetes"] = Answer(bool(file), f"{file} is for Kubernetes" if file else "no file is for Kubernetes")
    systems = [system for system, start in CI.items() if any(path.startswith(start) for path in tree.paths)]
    if systems:  # else those of company.yml
        answers["ci"] = Answer(systems, f"it has {', '.join(CI[one] for one in systems)}")
    if (taken := given.get("package_name", "")) in top:
        raise AdoptError(f"package_name={taken}: the repository has {taken} already, and one would shadow the other")
    return answers | {name: Answer(value, "given") for name, value in given.items()}


def project_type(tree: Tree, packaging: Packaging, layout: Layout) -> Answer:
    """Return service, batch or library with what speaks for it."""
    if served := serving(tree, packaging):
        return Answer("service", "; ".join(served))
    jobs = [
        name for name in layout.modules if JOBS.search(name) and name in tree.modules and tree.modules[name].is_program
    ]
    batch = [f"{name} is run as a program" for name in jobs[:3]]
    library = [f"{', '.join(packaging.kinds)} packages it"]
    library += [f"its code is the package {layout.package}"] * bool(layout.package and layout.package != "src")
    library += ["it has tests"] * any(path.split("/")[0] in ("tests", "test") for path in tree.python)
    if packaging.is_packaged and len(library) >= len(batch):
        return Answer("library", "; ".join(library))
    return Answer("batch", "; ".join(batch + ["nothing packages it"] * (not packaging.is_packaged)))


def serving(tree: Tree, packaging: Packaging) -> list[str]:
    """Return what shows that it serves, nothing if that is not enough: a library may have a demo server."""
    web = {name.replace("-", "_") for name in packaging.names()} & WEB
    places = [path for path in tree.paths if re.search(r"(^|/)(Dockerfile|Procfile|[^/]*compose)[^/]*$", path)]
    runs = SERVES.search("\n".join(tree.text(path) for path in places))
    found = [f"{path} is a web application" for path, one in tree.modules.items() if one.is_app][:2]
    found += [f"its containers run {runs[0]}"] if runs else []
    return found if found and (web or not packaging.is_packaged) else []


def framework(tree: Tree, packaging: Packaging) -> Answer:
    """Return the framework by the packages required, then by the imports; plain if there is none."""
    asked = {name.replace("-", "_") for name in packaging.names()}
    known = {name: one for name, one in frameworks().items() if "imports" in one}
    counts = {name: sum(tree.imports[module] for module in one["imports"]) for name, one in known.items()}
    wants = {name: {n for pattern in one["packages"] for n in matching(asked, pattern)} for name, one in known.items()}
    itself = {name: asked & {name, f"{name}_gpu", f"{name}_cpu"} for name in known}
    best = max(counts, key=lambda name: (bool(itself[name]), counts[name], bool(wants[name])))
    if names := itself[best] or wants[best]:
        line = next(one for one in packaging.run if one.name.replace("-", "_") in names)
        return Answer(best, f"{line.source} requires {line.requirement}; {counts[best]} files import it")
    if brought := sorted(asked & BRING_TORCH):
        return Answer("torch", f"{', '.join(brought).replace('_', '-')} requires it; {counts['torch']} files import it")
    if counts[best] and (not packaging.kinds or counts[best] * 3 >= len(tree.modules)):
        return Answer(best, f"{counts[best]} of {len(tree.modules)} files import it, though no file requires it")
    return Answer("plain", f"none of {', '.join(known)} is among its packages")


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
