"""PIP_INDEX_URL or pip.conf is the setting for a package index with a password; the build gets it as a secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import TYPES, AnswerSet
from tests.templates.own import own_copy, run, stand_in

PASSWORD = "s3cr-7f3a9c%40%3A%2F%25%23%20%24"  # quoted, as in an address
LOGIN, INDEX = f"robot%40team:{PASSWORD}", "packages.example.com/simple/"
DOCKER = """\
# A Docker that keeps the secret of a build and how it was called.
printf '%s\\n' "$*" >>"$DOCKER_LOG"
for word; do case $word in id=pip.conf,env=*) printenv "${word#*env=}" >"$DOCKER_LOG.conf" ;; esac; done
"""


@pytest.mark.parametrize("project_type", TYPES)
def test_a_build_gets_it_as_a_secret(render: Callable[[AnswerSet], Path], tmp_path: Path, project_type: str) -> None:
    child, log = own_copy(render(AnswerSet(project_type, "plain")), tmp_path), tmp_path / "docker.log"
    stand_in(child, "docker", DOCKER)
    more = {"DOCKER_LOG": str(log)}
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[global]\nindex-url = http://{LOGIN}@{INDEX}\n")
    more |= (
        {"PIP_CONFIG_FILE": str(conf)} if project_type == "library" else {"PIP_INDEX_URL": f"http://{LOGIN}@{INDEX}"}
    )
    done = run(child, "scripts/build", **more)
    assert done.returncode == 0, done.stderr
    assert PASSWORD not in log.read_text(encoding="utf-8") + done.stderr
    secret = Path(f"{log}.conf").read_text(encoding="utf-8")
    assert f"index-url = http://{LOGIN}@{INDEX}" in secret, secret
    steps = (child / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    blind = [step for step in steps if "base-install /tmp" in step and "id=pip.conf,target=/etc/pip.conf" not in step]
    assert blind == [], "a step that installs packages does not get the secret"
