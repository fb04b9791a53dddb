"""Make Copier cheaper for a worker that updates many children of one template: the same results, less work.

An update checks the whole template out five times and reads its data with a slow parser; for one child that is
nothing, for two hundred it is most of the time. Where a Copier has no such place to change, it stays as it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import copier._main
import copier._template
import jinja2
import yaml
from gpu_repo_runtime.update.git_calls import call


def share_checkouts(folder: Path) -> None:
    """Check each version of a template out once, into `folder`; Copier only reads its checkouts."""
    original = getattr(copier._template, "clone", None)
    if original is None:
        return
    made: dict[tuple[str, str], str] = {}

    def clone(url: str, ref: str = "HEAD", location: str | None = None) -> str:
        if not isinstance(ref, str) or ref == "HEAD":
            return str(original(url, ref, location))
        if (url, ref) not in made:
            folder.mkdir(parents=True, exist_ok=True)
            made[url, ref] = str(original(url, ref, tempfile.mkdtemp(dir=folder)))
        return made[url, ref]

    setattr(copier._template, "clone", clone)  # noqa: B010  (mypy refuses an assignment to an import)


def read_yaml_fast() -> None:
    """Let yaml.safe_load parse in C, where PyYAML was built with it; the values are the same."""
    if yaml.__with_libyaml__:
        yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)


def compile_templates_once(kept: MutableMapping[tuple[Any, ...], Any] | None = None) -> None:
    """Compile each Jinja template once for all the environments with the same syntax that Copier makes.

    `kept` holds what is compiled already, and gets what is not.
    """
    original: Any = jinja2.Environment.compile
    made = {} if kept is None else kept
    syntax = (
        "block_start_string",
        "variable_start_string",
        "comment_start_string",
        "trim_blocks",
        "lstrip_blocks",
        "keep_trailing_newline",
        "newline_sequence",
        "line_statement_prefix",
        "autoescape",
        "undefined",
    )

    def compile(self: jinja2.Environment, source: Any, name: Any = None, filename: Any = None, *rest: Any) -> Any:
        if not isinstance(source, str) or rest:
            return original(self, source, name, filename, *rest)
        key = (source, name, filename, *(getattr(self, option) for option in syntax), *sorted(self.extensions))
        try:
            return made[key]
        except KeyError:
            made[key] = original(self, source, name, filename)
        return made[key]

    setattr(jinja2.Environment, "compile", compile)  # noqa: B010  (mypy refuses an assignment to a method)


def ask_for_file_mode_once() -> None:
    """Ask git once for each folder whether it keeps the executable bit; Copier asks again for each file it renders.

    Only where it does not (core.fileMode is false) has Copier anything to do.
    """
    original: Any = getattr(copier._main.Worker, "_sync_git_index_executable_bit", None)
    if original is None:
        return
    kept: dict[Path, bool] = {}

    def sync(self: Any, *file: Any) -> None:
        place = self.subproject.local_abspath
        if place not in kept:
            kept[place] = call(place, "config", "--type=bool", "--get", "core.fileMode").stdout.strip() != b"false"
        if not kept[place]:
            original(self, *file)

    setattr(copier._main.Worker, "_sync_git_index_executable_bit", sync)  # noqa: B010  (the same)
