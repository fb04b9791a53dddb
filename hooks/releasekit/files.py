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


def check_child(child: Path) -> Iterator[Finding]:
    """Find what git or a hook of pre-commit would not take of a child. Some hooks repair its files."""
    git, texts = Git(child), {}
    git.text("init", "--quiet")
    for path in git.paths("ls-files", "--others", "--ignored", "--exclude-standard", "-z"):
        yield Finding(f"{path} is hidden by a .gitignore of the child: its owner would not commit it")
    for path in sorted(files_of(child)):
        if b"\0" not in (data := (child / path).read_bytes()):
            texts[path] = ".sh" if data.startswith(b"#!/usr/bin/env bash") else Path(path).suffix
    for hook, suffixes in HOOKS.items():
        files = [path for path, suffix in texts.items() if not suffixes or suffix in suffixes]
        program, *options = hook.split()
        command = [str(Path(sys.executable).with_name(program)), *options, *files]
        done = subprocess.run(command, cwd=child, capture_output=True, text=True, check=False)
        lines = (done.stdout + done.stderr).split("\n") if files and done.returncode else []
        named = [line.strip() for line in lines if any(path in line for path in files)]
        yield from (Finding(f"{program}: {line}") for line in named or lines[-1:])
