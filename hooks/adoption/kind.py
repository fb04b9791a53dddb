"""What a repository is: a service, a batch job or a library, and the framework that it is written in."""

from __future__ import annotations

import re
from fnmatch import filter as matching

from family import frameworks

from adoption.findings import Answer, Layout
from adoption.packaged import IMPORTS, Packaging
from adoption.tree import Tree

WEB = {
    "fastapi", "flask", "starlette", "litserve", "bentoml", "sanic", "aiohttp", "tornado", "falcon", "robyn", "django",
    "quart", "litestar", "gradio", "grpcio", "streamlit", "dash", "chainlit",
}  # fmt: skip
IMPORTED = {"grpc": "grpcio"} | {name: name for name in WEB}
SERVERS = {"gunicorn", "uvicorn", "hypercorn", "waitress", "daphne", "granian"}
SERVES = re.compile(
    r"\b(uvicorn|gunicorn|hypercorn|waitress-serve|daphne|flask run|litserve|bentoml serve|manage\.py runserver|"
    r"streamlit run|chainlit run)\b"
)
PAGES = {"streamlit", "chainlit"}  # they run a program as a page: nothing in it is called an app
ENTRIES = re.compile(r"(^|/)(wsgi|asgi)\.py$")
JOBS = re.compile(
    r"(train|main|sample|infer|predict|detect|generate|run|eval|test|export|val|embed|classify|finetune|calc|dataset)"
)
BRINGS = {  # what is nothing without a framework, and brings it along
    "torch": {
        "sentence_transformers", "fastai", "pytorch_lightning", "torchmetrics", "accelerate", "peft", "ultralytics",
        "open_clip_torch", "segmentation_models_pytorch", "lightly", "easyocr", "openai_whisper", "kornia", "monai",
    },
    "tensorflow": {"ktrain"},
}  # fmt: skip


def project_type(tree: Tree, packaging: Packaging, layout: Layout) -> Answer:
    """Return service, batch or library, by what speaks for each."""
    makers = packaging.makers
    if served := _served(tree, packaging):
        return Answer("service", "; ".join(served))
    library = [f"{', '.join(makers)} packages it"] * bool(makers)
    library += [f"its code is the package {layout.package}"] * bool(layout.package and layout.package != "src")
    library += ["it has tests"] * any(path.split("/")[0] in ("tests", "test") for path in tree.python)
    jobs = [name for name in layout.modules if JOBS.search(name) and name in tree.modules and tree.modules[name].main]
    batch = [f"{name} is run as a program" for name in jobs[:3]]
    batch += ["nothing packages it"] * (not makers) * 2
    batch += ["conda sets it up"] * any("env" in kind or "conda" in kind for kind in packaging.kinds)
    if len(library) >= len(batch) and makers:
        return Answer("library", "; ".join(library))
    reasons = list(dict.fromkeys(batch)) or ["neither a web framework nor packaging was found"]
    return Answer("batch", "; ".join(reasons))


def _served(tree: Tree, packaging: Packaging) -> list[str]:
    """Return what says that it serves, nothing where that does not suffice.

    A library may have a server beside it: it has to ask for its framework, and to make an app or have a container.
    """
    asked = {name.replace("-", "_") for name in packaging.packages.names()}
    places = [
        path for path in tree.paths if re.search(r"(^|/)(Dockerfile|Containerfile|Procfile|.*compose)[^/]*$", path)
    ]
    docker = "\n".join(tree.text(path) for path in places)
    web = [f"{', '.join(sorted(asked & WEB))} is among its packages"] if asked & WEB else []
    if not web and (imported := sorted({IMPORTED[name] for name in tree.imports if name in IMPORTED})):
        web = [f"its code imports {', '.join(imported)}"]
    strong = [f"{path} has {app}" for path, one in tree.modules.items() for app in one.apps][:2]
    strong += [f"its containers run {found[0]}"] if (found := SERVES.search(docker)) else []
    strong += [f"{name} serves it" for name in tree.paths if name in ("bentofile.yaml", "bentofile.yml")]
    for path, one in tree.modules.items() if not packaging.makers else ():
        strong += [f"{path} is a page of {', '.join(sorted(one.imports & PAGES))}"] if one.imports & PAGES else []
    weak = [f"{', '.join(sorted(asked & SERVERS))} is among its packages"] if asked & SERVERS else []
    weak += [f"{path} is an entry of a server" for path in tree.core if ENTRIES.search(path)][:1]
    weak += ["its containers expose a port"] if re.search(r"(?m)^EXPOSE\b", docker) else []
    if packaging.makers:
        return web + strong if asked & WEB and strong else []
    return web + strong + weak if (web or strong) and len(web + strong + weak) > 1 else []


def framework(tree: Tree, packaging: Packaging) -> Answer:
    """Return the framework, plain where there is none, by the packages asked for and the imports of the code."""
    asked = {name.replace("-", "_") for name in packaging.packages.names()}
    known = {name: one for name, one in frameworks().items() if "imports" in one}
    counts = {name: sum(tree.imports[n] for n in one["imports"]) for name, one in known.items()}
    wants = {name: {n for pattern in one["packages"] for n in matching(asked, pattern)} for name, one in known.items()}
    itself = {name: {n for n in asked if n == name or n in (f"{name}_gpu", f"{name}_cpu")} for name in known}
    best = max(counts, key=lambda name: (bool(itself[name]), counts[name], bool(wants[name])))
    imported = bool(packaging.packages.run) and all(a.source == IMPORTS for a in packaging.packages.run)
    if wants[best] and not imported:
        told = itself[best] or wants[best]
        lines = [a for a in packaging.packages.run if a.name.replace("-", "_") in told]
        named = str(lines[0].requirement) if itself[best] else ", ".join(sorted(told))
        return Answer(best, f"{lines[0].source} asks for {named}; {counts[best]} files import it")
    files = len(tree.core or tree.notebooks)
    if counts[best] and (imported or counts[best] * 3 >= files):
        return Answer(best, f"{counts[best]} of {files} files import it, though no file asks for it")
    for name in known:
        if brought := sorted(_brought(name, packaging, asked)):
            return Answer(
                name, f"{', '.join(brought).replace('_', '-')} brings it along; {counts[name]} files import it"
            )
    more = f" ({best} is imported by {counts[best]} of {files} files and asked for by none)" if counts[best] else ""
    return Answer("plain", f"none of {', '.join(known)} is among its packages{more}")


def _brought(name: str, packaging: Packaging, asked: set[str]) -> set[str]:
    """Return the packages that bring a framework along: by themselves, or by an extra of its name."""
    extras = {str(one.requirement) for one in packaging.packages.run if name in one.requirement.extras}
    return (asked & BRINGS.get(name, set())) | extras
