"""The reference: what scripts and programs print about themselves, written when the site is built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module

from jinja2 import ChainableUndefined, Environment, FileSystemLoader

from docs.figures.blocks import ROOT, table

TYPES = ("service", "batch", "library")
PACKAGE = "build/reference/project"  # the package that the batch job's help needs
PATHS = ("runtime/src", "base-images", "hooks", "tools", "build/reference")
PROGRAMS = {
    "batch": ("-m", "gpu_repo_runtime.batch", "project", "run", "--help"),
    "training": ("-m", "gpu_repo_runtime.batch", "project", "train", "--help"),
    "update": ("-m", "gpu_repo_runtime.update", "--help"),
    "gpu-smoke": ("-m", "gpu_smoke", "--help"),
    "fleet": ("hooks/fleet.py", "--help"),
    "fleet-push": ("hooks/fleet.py", "push", "--help"),
    "adopt": ("hooks/adopt.py", "--help"),
}
EXITS = re.compile(r'Exit codes: (.*?)\.(?: |"|$)')


def printed(*command: str) -> str:
    """Return what a Python program of this repository prints, 84 columns wide, as the site."""
    package = ROOT / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    environment = os.environ | {"PYTHONPATH": ":".join(str(ROOT / path) for path in PATHS), "COLUMNS": "84"}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def helps() -> dict[str, str]:
    """Return the help of each script, by its name; where types differ, with the types."""
    jinja = Environment(loader=FileSystemLoader(ROOT), undefined=ChainableUndefined, trim_blocks=True)
    found: dict[tuple[str, str], list[str]] = {}
    for kind in TYPES:
        for path in sorted((ROOT / "templates" / kind / "scripts").glob("*.jinja")):
            if path.stem not in ("lib.sh", "python.sh"):
                text = jinja.get_template(path.relative_to(ROOT).as_posix()).render(
                    project_type=kind, package_name="<package>", staging="the registry of staging"
                )
                comment = re.search(r"(?m)\A(?:\s*#!.*\n)(?P<help>(?:#.*\n)+)", text)
                assert comment, f"{path}: no comment at the top, which is its help"
                found.setdefault((path.stem, re.sub(r"(?m)^# ?", "", comment["help"])), []).append(kind)
    of = {key: f" ({', '.join(kinds)})" if len(kinds) < len(TYPES) else "" for key, kinds in found.items()}
    return {f"scripts/{name}{of[name, text]}": text for name, text in sorted(found)}


def scripts() -> str:
    """Return the help of all scripts, each below its name."""
    return "\n".join(f"**{name}**\n\n```text\n{text}```\n" for name, text in helps().items())


def program(name: str) -> str:
    """Return the help of one program."""
    return f"```text\n{printed(*PROGRAMS[name])}```\n"


def settings() -> str:
    """Return the environment variables of a service, each with its default and meaning."""
    sys.path.append(str(ROOT / "runtime/src"))
    fields = import_module("gpu_repo_runtime.serving.settings").Settings.model_fields
    rows = [[f"`{name.upper()}`", str(field.default), field.description] for name, field in fields.items()]
    return table(["variable", "default", "meaning"], rows)


def exits() -> str:
    """Return the exit codes of a service and a batch job."""
    runtime = "runtime/src/gpu_repo_runtime/"
    return exit_table({"service": f"{runtime}serving/errors.py", "batch job": f"{runtime}batch/exits.py"})


def exits_of_programs() -> str:
    """Return the exit codes of the other programs."""
    runtime = "runtime/src/gpu_repo_runtime/"
    sources = {
        "`scripts/*`": f"{runtime}scripts/__main__.py", "`scripts/update`": f"{runtime}update/cli.py",
        "`scripts/lock`": f"{runtime}locking.py", "`scripts/weights`": f"{runtime}weights/cli.py",
        "`scripts/test --python`": f"{runtime}pythons.py", "`gpu-smoke`": "base-images/gpu_smoke/cli.py",
        "`base-install`": "base-images/recipe/finish/base_install/cli.py", "`make adopt`": "hooks/adopt.py",
        "`make fleet-*`": "hooks/fleet.py", "`make release-check`": "hooks/release_check.py",
    }  # fmt: skip
    return exit_table(sources)


def exit_table(sources: dict[str, str]) -> str:
    """Return a table of exit codes, as the sources describe them."""
    texts = {name: " ".join((ROOT / path).read_text(encoding="utf-8").split()) for name, path in sources.items()}
    rows = [[name, re.sub(r"[;,] (?=\d)", "<br>", EXITS.findall(text)[0])] for name, text in texts.items()]
    return table(["program", "exit codes"], rows)
