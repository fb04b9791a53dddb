"""Weights as an image: built and pushed with Docker as the page does it, and fetched by another repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from gpu_repo_runtime.weights import lockfile

from tests.ci.registry import Registry
from tests.runtime.weights_projects import LARGE, Project, contents, done, fetched, own_cache, project  # noqa: F401

pytestmark = [pytest.mark.images, pytest.mark.needs("skopeo")]


def test_pushed_and_named_by_a_service(project: Project, tmp_path: Path, monkeypatch, capsys) -> None:  # noqa: F811
    with Registry() as registry:
        project('[topic]\nsource = "made"\n', made__best_dot_bin=LARGE, made__deep__vocab_dot_txt=b"a\nb")
        done("lock")
        before, name = lockfile.read(Path("weights.lock")).digest, f"{registry.host}/models/topic"
        build = ["docker", "build", "--file", "-", "--tag", f"{name}:1", fetched(capsys)]
        subprocess.run(build, input="FROM scratch\nCOPY . /models/\n", text=True, check=True)
        subprocess.run(["docker", "push", f"{name}:1"], check=True)
        revision = "1"
        for cache in ("second", "third"):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
            project(f'[topic]\nsource = "oci://{name}"\nrevision = "{revision}"\n')
            done("lock")
            found = lockfile.read(Path("weights.lock"))
            revision = found.weights[0].revision
            assert (found.digest, revision[:7]) == (before, "sha256:")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "fourth"))
        assert contents(fetched(capsys)) == {"topic/best.bin": LARGE, "topic/deep/vocab.txt": b"a\nb"}
        project(f'[m]\nsource = "oci://{registry.host}/models/nothing"\nrevision = "9"\n')
        done("lock", code=3)
        assert f"docker pull {registry.host}/models/nothing:9: " in capsys.readouterr().err
        subprocess.run(["docker", "image", "rm", "--force", f"{name}:1"], check=True)
        registry.shutdown()
