"""What a command or a text names: scripts, targets of make, options, paths; and what of it does not exist."""

from __future__ import annotations

import re

from tests.conftest import ROOT


def targets() -> set[str]:
    files = [ROOT / "Makefile", *ROOT.glob("*/*.mk"), *ROOT.glob("*/*/*.mk")]
    return {name for file in files for name in re.findall(r"(?m)^([a-z-]+):", file.read_text(encoding="utf-8"))}


def sources(*patterns: str) -> str:
    """Return the texts of all files of the repository that match."""
    files = [path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


CHILD = (
    "templates/*/scripts/*.jinja",
    "templates/shared/scripts/*",
    "runtime/src/gpu_repo_runtime/batch/*.py",
    "templates/library/src/*/__main__.py",
    "runtime/src/gpu_repo_runtime/update/*.py",
    "runtime/src/gpu_repo_runtime/bench.py",
)
OPTIONS = {
    r"(?:^|/)hooks/fleet\.py|^fleet\b": ("hooks/fleet.py",),
    r"(?:^|/)hooks/\w+\.py": ("hooks/*.py",),
    r"(?:^|/)tools/\w+\.py": ("tools/*.py",),
    r"\bbenchmarks[/.]": ("benchmarks/**/*.py",),
    r"^scripts/": CHILD,
    r"^gpu-smoke\b|gpu-smoke\.pyz": ("base-images/gpu_smoke/*.py",),
}


def faults(command: str) -> list[str]:
    """Return what a line names that does not exist: script, target of make, option or path."""
    command = re.sub(r"(^|\s)#.*", "", command).strip()
    found = []
    for name in re.findall(r"(?<![\w./-])scripts/([a-z]+)\b(?!/)", command):
        if not list(ROOT.glob(f"templates/*/scripts/{name}.jinja")):
            found.append(f"scripts/{name} is in no child")
    for name in re.findall(r"(?:^|[;&|] *)make ([a-z-]+)", command):
        if name not in targets():
            found.append(f"there is no target {name}")
    for name in re.findall(r"-m (benchmarks\.[\w.]+)", command):
        if not (ROOT / name.replace(".", "/")).with_suffix(".py").is_file():
            found.append(f"there is no program {name}")
    for pattern, programs in OPTIONS.items():
        if re.search(pattern, command):
            known = sources(*programs)
            options = re.findall(r"(?<=[\s|])(--[a-z][a-z-]+)", command)
            # gpu-smoke makes the names of two of its options.
            found += [
                f"{one} is not an option of it" for one in options if one not in known and f'"{one[2:]}"' not in known
            ]
            break
    return found + paths_missing(command)


ROOMS = "hooks|tools|benchmarks|tests|base-images|templates|docs|deploy"
PATH = re.compile(rf"(?<![\w./:@-])((?:{ROOMS})/[\w./*{{}}<>-]*[\w*/}}>])")
MADE = re.compile(r"docs/evidence|base-images/ca/\*\.crt|deploy/overlays$")


def paths_missing(text: str) -> list[str]:
    """Return the paths in `text` that neither this repository nor a child has."""
    missing = []
    for path in PATH.findall(text):
        pattern = re.sub(r"<[a-z]+>", "*", path).replace("{package}", "*").rstrip("/")
        places = [pattern] + [f"templates/*/{pattern}{end}" for end in ("", ".jinja", ".yaml.jinja")]
        if not MADE.search(path) and not any(any(ROOT.glob(place)) for place in places):
            missing.append(f"{path} does not exist")
    return missing
