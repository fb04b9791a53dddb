"""`make test` in a fresh clone, on a machine that has git, make and Debian's Python, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import git

IMAGE = """\
FROM debian:trixie-slim
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends git make python3 python3-venv ca-certificates >/dev/null
RUN useradd --create-home --uid 1000 newcomer
"""


@pytest.mark.needs("docker")
@pytest.mark.parametrize("user", ["newcomer", pytest.param("root", marks=pytest.mark.release)])
def test_the_quick_tests_pass(user: str, template: Path, tmp_path: Path) -> None:
    """In a folder with a space, without /dev/shm and a git identity, with a read-only cache, and with CI set."""
    git(template, "bundle", "create", "--quiet", str(tmp_path / "family.bundle"), "main")
    tag = "tests-bare-machine"
    build = ["docker", "build", "--network=host", "--quiet", f"--tag={tag}", "-"]
    subprocess.run(build, input=IMAGE, text=True, check=True, stdout=subprocess.DEVNULL)
    script = "cd && mkdir -m 555 .cache && git clone -q --branch main /given/family.bundle 'a folder' && "
    script += "cd 'a folder' && make test JOBS=2"
    command = ["docker", "run", "--rm", "--network=host", "--ipc=none", f"--user={user}", "--env=CI=true"]
    command += ["--env=SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", f"--volume={tmp_path}:/given:ro"]
    tmp_path.chmod(0o755)
    done = subprocess.run([*command, tag, "bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{user}: {done.stdout[-6000:]}{done.stderr[-2000:]}"
