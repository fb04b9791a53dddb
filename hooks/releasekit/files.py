"""The files that a child cannot have: those that their own reader, or git, would not take."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gpu_repo_runtime.update.git import Git

from releasekit.findings import Finding
from releasekit.template import files_of

HOOKS: dict[str, tuple[str, ...]] = {  # the command and its options: suffixes (none: every text)
    "check-ast": (".py",),
    "check-json": (".json",),
    "check-toml": (".toml",),
    "check-yaml --allow-multiple-documents": (".yml", ".yaml"),
    "check-merge-conflict --assume-in-merge": (),
    "detect-private-key": (),
    "mixed-line-ending --fix=lf": (),
    "end-of-file-fixer": (),
    "fix-byte-order-marker": (),
    "shellcheck --severity=error --format=gcc": (".sh",),
}


def check_child(child: Path) -> list[Finding]:
    """Return what hooks of pre-commit and git say of a child that was just rendered. Some hooks repair its files."""
    git = Git(child)
    git.text("init", "--quiet")
    hidden = git.paths("ls-files", "--others", "--ignored", "--exclude-standard", "-z")
    found = [
        Finding(f"{path} is hidden by a .gitignore of the child: its owner would not commit it") for path in hidden
    ]
    return found + [Finding(text) for text in run_hooks(child)]


def run_hooks(child: Path) -> Iterator[str]:
    """Give each line in which a hook names a file, or what the hook said last."""
    texts = {}
    for path in sorted(files_of(child)):
        if b"\0" not in (data := (child / path).read_bytes()):
            texts[path] = ".sh" if data.startswith(b"#!/usr/bin/env bash") else Path(path).suffix
    for hook, suffixes in HOOKS.items():
        files = [path for path, suffix in texts.items() if not suffixes or suffix in suffixes]
        program, *options = hook.split()
        command = [str(Path(sys.executable).with_name(program)), *options, *files]
        done = subprocess.run(command, cwd=child, capture_output=True, text=True, check=False)
        lines = (done.stdout + done.stderr).splitlines() or ["no message"]
        if files and done.returncode:
            named = [line.strip() for line in lines if any(path in line for path in files)]
            yield from (f"{program}: {line}" for line in named or lines[-1:])
