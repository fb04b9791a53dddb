"""A copy of the image tools with keys, a history and a registry, used through its command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from image_tools.build_plan import labels
from image_tools.catalog import find_row, read_catalog

from tests.ci.registry import Registry
from tests.shared import ROOT

CATALOG = read_catalog()
NAME = "plain-cu13"
CREATED = "org.opencontainers.image.created"
SMOKE = """#!/bin/sh
echo "a stand-in for the smoke test: {word}"
while [ $# -gt 0 ]; do
    [ "$1" = --json ] && echo '{{"verdict": "{word}", "require": "none", "framework": "plain", \
        "image": {{"name": "plain-cu13", "certificates": []}}, \
        "layers": [{{"name": "runtime", "state": "{word}"}}]}}' > "$2"
    shift
done
exit {code}
"""


class Parent:
    """A parent repository in a folder, and the registry HOST/ml that it pushes to."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self.folder, self.registry, host = folder, registry, registry.host
        self.host, self.repository = host, f"{host}/ml/{NAME}"
        self.staging = f"{host}/ml-staging/{NAME}"
        self.record = folder / "base-images" / "released.json"
        shutil.copytree(ROOT / "base-images", folder / "base-images", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("tests/company.yml", "VERSION"):
            shutil.copy(ROOT / name, folder)
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments: str) -> str:
        """Run git in the repository; return what it prints."""
        who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        done = subprocess.run(["git", *who, *arguments], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self) -> str:
        """Commit what is there; return the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=x")
        return self.git("rev-parse", "HEAD")

    def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Run `python -m image_tools` as the targets do; return the exit code and all that it printed."""
        path = f"{self.folder / 'base-images'}:{ROOT / 'runtime' / 'src'}"
        environment = os.environ | {"PYTHONPATH": path} | variables
        command = [sys.executable, "-m", "image_tools", *arguments, "--registry", f"{self.host}/ml"]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        return done.returncode, done.stdout + done.stderr

    def build(self, content: str, code: int = 0, **changed: str) -> None:
        """Build a small image under the local tag of the row; its smoke test ends with `code`."""
        folder = self.folder / "small"
        folder.mkdir(exist_ok=True)
        (folder / "smoke").write_text(SMOKE.format(code=code, word="fail" if code else "pass"))
        said = labels(CATALOG, find_row(CATALOG, NAME)) | {CREATED: content} | changed
        lines = [f"FROM {CATALOG['operating_system']}", "COPY --chmod=755 smoke /usr/local/bin/gpu-smoke"]
        lines += [f'RUN echo "{content}" > /content && touch -d @0 /content']
        lines += [f'LABEL {key}="{value}"' for key, value in said.items()]
        (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
        command = ["docker", "build", "--quiet", "--tag", f"{self.host}/ml/{NAME}:{CATALOG['release']}", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder)

    def works(self, *arguments: str) -> str:
        """Run it and return what it printed; it has to end with 0."""
        code, said = self.run(*arguments)
        assert code == 0, f"{arguments}: {said}"
        return said

    def refuses(self, reason: str, *arguments: str) -> None:
        """Run it; it has to end with 1 and give this reason in its last line."""
        code, said = self.run(*arguments)
        assert code == 1, f"{arguments}: {said}"
        assert reason in said.splitlines()[-1], f"{arguments}: {said}"

    def released(self) -> dict[str, Any]:
        """Return what the record says of the row."""
        found: dict[str, Any] = json.loads(self.record.read_text()).get(NAME, {}) if self.record.exists() else {}
        return found

    def tags(self) -> dict[str, str]:
        """Return the digest of each release tag."""
        found = self.registry.tags(f"ml/{NAME}")
        return {name: digest for name, digest in found.items() if name.startswith(CATALOG["release"])}

    def key(self, role: str, name: str = "") -> str:
        """Make a pair of keys and commit the public one; return the path of the private one, NAME.key."""
        prefix = self.folder.parent / (name or role)
        command = ["cosign", "generate-key-pair", f"--output-key-prefix={prefix}"]
        subprocess.run(command, env=os.environ | {"COSIGN_PASSWORD": ""}, check=True, capture_output=True)
        shutil.move(f"{prefix}.pub", self.folder / "base-images" / "keys" / f"{role}.pub")
        self.commit()
        return f"{prefix}.key"
