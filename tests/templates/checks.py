"""Checks of single files of a child, each returning what is wrong with it; results are kept by content."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import kubernetes_validate
import yaml

BIN = Path(sys.executable).parent
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PIPELINES = {"jenkins": "Jenkinsfile", "github": ".github/workflows/ci.yml", "gitlab": ".gitlab-ci.yml"}
KUBERNETES = ("1.33", "1.37")
# Kinds that come with an operator and not with Kubernetes: what the test holds them to instead of a schema.
OPERATOR_KINDS = {
    "Kustomization": {"kustomize.config.k8s.io/v1beta1", "kustomize.config.k8s.io/v1alpha1"},
    "Component": {"kustomize.config.k8s.io/v1alpha1"},
    "PodMonitor": {"monitoring.coreos.com/v1"},
    "PrometheusRule": {"monitoring.coreos.com/v1"},
    "HTTPRoute": {"gateway.networking.k8s.io/v1"},
    "ScaledObject": {"keda.sh/v1alpha1"},
    "TrainingRuntime": {"trainer.kubeflow.org/v1alpha1"},
    "TrainJob": {"trainer.kubeflow.org/v1alpha1"},
}


def files_of(child: Path) -> list[Path]:
    """Return the files of a rendered child, without what running it has made."""
    made = {".git", ".venv", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    return sorted(p for p in child.rglob("*") if p.is_file() and not made & set(p.relative_to(child).parts[:-1]))


def is_shell(path: Path, text: str) -> bool:
    """Tell whether the file is a shell script."""
    return path.suffix == ".sh" or text.startswith(("#!/usr/bin/env bash", "#!/bin/bash", "#!/bin/sh"))


def _run(*command: str, cwd: Path | None = None, text: str | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip() or f"exit code {done.returncode}"


@cache
def parse_error(suffix: str, text: str) -> str:
    """Return why a file with this suffix does not parse, "" when it does."""
    try:
        if suffix in (".yml", ".yaml"):
            list(yaml.load_all(text, Loader=LOADER))
        elif suffix == ".json":
            json.loads(text)
        elif suffix == ".toml":
            tomllib.loads(text)
        elif suffix == ".py":
            ast.parse(text)
    except (yaml.YAMLError, ValueError, SyntaxError) as error:
        return str(error)
    return ""


@cache
def shell_error(text: str) -> str:
    """Return what bash says of the syntax of a script, "" when nothing."""
    return _run("bash", "-n", "/dev/stdin", text=text)


@cache
def dockerfile_error(text: str) -> str:
    """Return what hadolint says of a Dockerfile, "" when nothing."""
    return _run(str(BIN / "hadolint"), "--no-color", "-", text=text)


@cache
def workflow_error(text: str) -> str:
    """Return what actionlint says of a GitHub workflow, "" when nothing."""
    return _run(str(BIN / "actionlint"), "-no-color", "-shellcheck", str(BIN / "shellcheck"), "-", text=text)


SHELLCHECK = ("--color=never", "--external-sources", "--source-path=SCRIPTDIR")  # as scripts/lint calls it


def shellcheck_error(child: Path, scripts: tuple[str, ...]) -> str:
    """Return what shellcheck says of scripts, "" when nothing."""
    return _run(str(BIN / "shellcheck"), *SHELLCHECK, *scripts, cwd=child)


def python_error(child: Path) -> str:
    """Return what ruff and its formatter say of a child under the child's own settings, "" when nothing."""
    ruff = str(BIN / "ruff")
    lint = _run(ruff, "check", "--no-cache", "--output-format=concise", ".", cwd=child)
    return lint or _run(ruff, "format", "--no-cache", "--check", "--diff", ".", cwd=child)


@cache
def style_error(name: str, text: str) -> str:
    """Return what a careful writer would not have left in a text file, "" when nothing."""
    faults = []
    if not text:
        return ""
    prose = re.sub(r"(?s)```.*?```", "code", text) if name.endswith(".md") else text
    if not text.endswith("\n") or text.endswith("\n\n"):
        faults.append("does not end with one newline")
    if text.startswith("\n"):
        faults.append("starts with an empty line")
    if "\r" in text:
        faults.append("has a carriage return")
    if "\n\n\n\n" in text or ("\n\n\n" in prose and not name.endswith(".py")):
        faults.append("has a run of empty lines")
    faults += [f"line {n} ends with a space" for n, line in enumerate(text.split("\n"), 1) if line != line.rstrip()]
    return ", ".join(faults)


@cache
def kubernetes_error(text: str) -> str:
    """Return why the objects of a manifest do not fit Kubernetes' schemas, "" when they do. Unknown kinds do not."""
    for document in yaml.load_all(text, Loader=LOADER):
        if not isinstance(document, dict) or "kind" not in document or "apiVersion" not in document:
            if isinstance(document, dict) and "kind" not in document and "apiVersion" not in document:
                continue  # a patch or a values file
            return f"no kind or no apiVersion in {document!r}"
        kind, version = document["kind"], document["apiVersion"]
        if kind in OPERATOR_KINDS:
            if version not in OPERATOR_KINDS[kind]:
                return f"{kind} with apiVersion {version}: expected {', '.join(sorted(OPERATOR_KINDS[kind]))}"
            continue
        for release in KUBERNETES:
            try:
                kubernetes_validate.validate(document, release, strict=True)
            except Exception as error:
                return f"{kind} does not fit Kubernetes {release}: {error}"
    return ""


def unpinned_images(text: str) -> list[str]:
    """Return the image references of a manifest or Dockerfile that have no tag or the tag latest."""
    found = re.findall(r"(?m)^\s*-?\s*(?:image|reference|FROM|ARG BASE_IMAGE)[:= ][ \t]*[\"']?([^\s\"']+)", text)
    names = [name for name in found if not name.startswith("$") and name not in ("packages", "scratch", "test")]
    return [name for name in names if not re.search(r"(:(?!latest)[\w.-]+|@sha256:[0-9a-f]{64})$", name)] + re.findall(
        r"\S+:latest\b", text
    )


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
