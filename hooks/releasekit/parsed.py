"""Whether the programs that read a file of a child can read it at all."""

from __future__ import annotations

import ast
import json
import subprocess
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import PurePosixPath

import yaml

LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def as_yaml(text: str) -> None:
    """Read every document, without giving its tags a meaning. Raises YAMLError."""
    for _ in yaml.compose_all(text, Loader=LOADER):
        pass


def as_bash(text: str) -> None:
    """Read a script without running it. Raises ValueError."""
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[0])


READERS: dict[str, Callable[[str], object]] = {
    ".json": json.loads, ".toml": tomllib.loads, ".py": ast.parse, ".yml": as_yaml, ".yaml": as_yaml, ".sh": as_bash,
}  # fmt: skip


@cache
def unreadable(suffix: str, text: str) -> str:
    """Return why a text cannot be read as what its name says, "" where it can."""
    try:
        READERS[suffix](text)
    except (ValueError, SyntaxError, yaml.YAMLError, RecursionError) as error:
        return " ".join(str(error).split())
    return ""


def fault(path: str, text: str) -> str:
    """Return what is wrong with a file, "" where its reader takes it or where it has none."""
    suffix = ".sh" if text.startswith("#!/usr/bin/env bash") else PurePosixPath(path).suffix
    said = unreadable(suffix, text) if suffix in READERS else ""
    return f"cannot be read: {said}" if said else ""
