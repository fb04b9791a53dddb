"""What no child may contain: files on no list, names that Windows rejects, and files that their reader cannot read."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from git_calls import git
from gpu_repo_runtime.update.ownership import owners_in
from pathspec import GitIgnoreSpec

from releasekit.findings import Finding
from releasekit.template import files_of

ODD_NAME = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ](/|$)|(?i:(^|/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|/|$))')
HOOKS: dict[str, tuple[str, ...]] = {  # the command and its options: suffixes (none: every text)
    "check-ast": (".py",),
    "check-json": (".json",),
    "check-toml": (".toml",),
    "check-yaml --allow-multiple-documents": (".yml", ".yaml"),
    "check-merge-conflict --assume-in-merge": (),
    "detect-private-key": (),
    "mixed-line-ending --fix=lf": (),
    "fix-byte-order-marker": (),
    "end-of-file-fixer": (),
    "shellcheck --severity=error --format=gcc": (".sh",),
}


def check_child(child: Path, questions: tuple[str, ...]) -> Iterator[Finding]:
    """Find files that no child may contain; `questions` are the names that a template could leave in a text."""
    owners, paths, ignore = owners_in(child), sorted(files_of(child)), child / ".gitignore"
    ignored = GitIgnoreSpec.from_lines(ignore.read_text().splitlines() if ignore.is_file() else [])
    names: dict[str, str] = {}
    left = re.compile(rf"\{{%-? *(?:if|for|set|include|end(?:if|for))\b|(?<!\$)\{{\{{ *(?:{'|'.join(questions)})\b")
    for path in paths:
        lists = [owner for owner, spec in owners.specs.items() if spec.match_file(path)]
        data = (child / path).read_bytes()
        if len(lists) != 1:
            yield Finding(f"{path} is on {'both lists' if lists else 'neither list'} of templates/ownership.yml")
        if ODD_NAME.search(path):
            yield Finding(f"{path} has a name that Windows cannot check out")
        if names.setdefault(path.lower(), path) != path:
            yield Finding(f"{path} differs from {names[path.lower()]} in capitals only")
        if ignored.match_file(path):
            yield Finding(f"{path} is ignored by the child's .gitignore: git would not add it")
        if data.startswith(b"#!") and not os.access(child / path, os.X_OK):
            yield Finding(f"{path} is a script that is not executable: git update-index --chmod=+x")
        if b"\0" not in data and (found := left.search(data.decode(errors="replace"))):
            yield Finding(f"{path} has {found[0]!r} of the template left in it")
        if re.fullmatch(r"requirements[^/]*\.lock", path):
            yield from check_wheels(child, path, data.decode(errors="replace"))


def check_wheels(child: Path, path: str, lock: str) -> Iterator[Finding]:
    """Find wheels that a lock names and the child does not have, or has with another hash."""
    for name, hashes in re.findall(r"(?m)@ file:(\S+)((?:[^\n]*\\\n)*[^\n]*)", lock):
        wheel = child / name
        if not wheel.is_file():
            yield Finding(f"{path} names {name}, which is not there")
        elif hashlib.sha256(wheel.read_bytes()).hexdigest() not in hashes:
            yield Finding(f"{path} has another hash than {name}: run make wheel")


def check_syntax(folder: Path, children: list[str]) -> Iterator[tuple[str, Finding]]:
    """Run hooks of pre-commit over each distinct text of the children in `folder`; give child and finding.

    Some hooks repair the files that they find. Raises OSError if a hook fails.
    """
    git(folder, "init", "--quiet")  # check-merge-conflict asks git
    distinct: dict[tuple[str, bytes], str] = {}
    for child in children:
        for path in files_of(folder / child):
            if b"\0" not in (data := (folder / child / path).read_bytes()):
                suffix = ".sh" if data.startswith(b"#!/usr/bin/env bash") else PurePosixPath(path).suffix
                distinct.setdefault((suffix, hashlib.sha256(data).digest()), f"{child}/{path}")
    for hook, suffixes in HOOKS.items():
        program, *options = hook.split()
        files = sorted(place for (suffix, _), place in distinct.items() if not suffixes or suffix in suffixes)
        if not files:
            continue
        command = [str(Path(sys.executable).with_name(program)), *options, *files]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        found = [*re.finditer(r"(?m)^(.*?)\b(\d+-new)/([^\n]*)", output)] if done.returncode else []
        if done.returncode and not found:
            raise OSError(f"{program} failed: {(output.strip() or 'no message').splitlines()[-1]}")
        yield from ((one[2], Finding(f"{program}: {one[1]}{one[3]}")) for one in found)
