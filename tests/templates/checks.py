"""Checks of files of a child, each returning what is wrong with it; results are kept by content."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

BIN = Path(sys.executable).parent
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PIPELINES = {"jenkins": "Jenkinsfile", "github": ".github/workflows/ci.yml", "gitlab": ".gitlab-ci.yml"}
KUBERNETES = ("1.32", "1.37")  # oldest and newest that are looked at
OF_AN_OPERATOR = {  # kinds that do not come with Kubernetes: their version instead of a schema
    "PodMonitor": "monitoring.coreos.com/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
    "HTTPRoute": "gateway.networking.k8s.io/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "TrainingRuntime": "trainer.kubeflow.org/v1alpha1",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
}


def files_of(child: Path) -> list[Path]:
    """Return the files of a rendered child, without what running it has made."""
    made = {".git", ".venv", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    return sorted(p for p in child.rglob("*") if p.is_file() and not made & set(p.relative_to(child).parts[:-1]))


def said(*command: str | Path, cwd: Path | None = None, text: str | None = None) -> str:
    """Return what a program prints when it finds something, "" when nothing."""
    done = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip() or f"exit code {done.returncode}"


@cache
def parse_error(suffix: str, text: str) -> str:
    """Return why a file of data does not parse, "" when it does."""
    try:
        if suffix in (".yml", ".yaml"):
            list(yaml.load_all(text, Loader=LOADER))
        elif suffix in (".json", ".toml"):
            json.loads(text) if suffix == ".json" else tomllib.loads(text)
    except (yaml.YAMLError, ValueError) as error:
        return str(error)
    return ""


@cache
def workflow_error(text: str) -> str:
    """Return what actionlint says of a GitHub workflow, "" when nothing."""
    return said(BIN / "actionlint", "-no-color", "-shellcheck", BIN / "shellcheck", "-", text=text)


def python_error(child: Path) -> str:
    """Return what ruff and its formatter say of a child under the child's own settings, "" when nothing."""
    lint = said(BIN / "ruff", "check", "--no-cache", "--output-format=concise", ".", cwd=child)
    return lint or said(BIN / "ruff", "format", "--no-cache", "--check", "--diff", ".", cwd=child)


@cache
def style_error(name: str, text: str) -> str:
    """Return what a careful writer would not have left in a text file, "" when nothing."""
    prose = re.sub(r"(?s)```.*?```", "code", text) if name.endswith(".md") else text
    runs = r"\n\n\n\n" if name.endswith(".py") else r"\n\n\n"
    wrong = re.search(rf"\A\n|{runs}|\r|[ \t]+(?=\n)|\n\n\Z|[^\n]\Z", prose)
    return f"blank lines or spaces: {wrong[0]!r} after {prose[: wrong.start()][-40:]!r}" if wrong else ""


def objects(folder: Path) -> list[dict[str, Any]]:
    """Return what kubectl builds of a folder of deploy/; of a component, on the base."""
    place = folder
    if "kind: Component" in (folder / "kustomization.yaml").read_text(encoding="utf-8"):
        place = folder.parents[1] / "overlays" / "only-for-a-component"
        place.mkdir()
        (place / "kustomization.yaml").write_text(f"resources: [../../base]\ncomponents: [../../base/{folder.name}]\n")
    done = subprocess.run(["kubectl", "kustomize", place], capture_output=True, text=True, check=False)
    if place != folder:
        shutil.rmtree(place)
    assert done.returncode == 0, f"{folder}: {done.stderr}"
    return [one for one in yaml.load_all(done.stdout, Loader=LOADER) if one]


@cache
def schema_error(text: str) -> str:
    """Return why an object, as JSON, does not fit Kubernetes' schemas, "" when it does. Unknown kinds do not."""
    document = json.loads(text)
    kind, version = document["kind"], document["apiVersion"]
    if kind in OF_AN_OPERATOR:
        return "" if version == OF_AN_OPERATOR[kind] else f"{kind} with apiVersion {version}"
    for release in KUBERNETES:
        try:
            kubernetes_validate.validate(document, release, strict=True)
        except Exception as error:
            return f"{kind} does not fit Kubernetes {release}: {error}"
    return ""


def requirements(lock: str) -> dict[str, str]:
    """Return name -> version of a lock's pins. Raises ValueError for a pin without a hash."""
    pins = {}
    for block in re.split(r"(?m)^(?=[A-Za-z0-9])", re.sub(r"(?m)^#.*\n", "", lock)):
        if not block.strip():
            continue
        match = re.match(r"([A-Za-z0-9._-]+)(?:==| @ file:wheels/[a-z0-9_]+-)([^\s;\\-]+)", block)
        if not match or "--hash=sha256:" not in block:
            raise ValueError(f"no pin with a hash: {block.splitlines()[0]}")
        pins[match[1]] = match[2]
    return pins
