"""Weights as an image: pushed to a registry with Docker, and fetched from it by another repository."""

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
        host = registry.host
        project('[topic]\nsource = "made"\n', made__best_dot_bin=LARGE, made__deep__vocab_dot_txt=b"a\nb")
        done("lock")
        before = lockfile.read(Path("weights.lock")).digest
        capsys.readouterr()
        done("push", f"oci://{host}/models/topic:1")
        lines = capsys.readouterr().out
        for revision in (lines, f'[topic]\nsource = "oci://{host}/models/topic"\nrevision = "1"\n'):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache of {len(revision)}"))
            folder = project(revision)
            done("lock")
            found = lockfile.read(folder / "weights.lock")
            assert (found.digest, found.weights[0].revision[:7]) == (before, "sha256:")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "third"))
        assert contents(fetched(capsys)) == {"topic/best.bin": LARGE, "topic/deep/vocab.txt": b"a\nb"}
        project(f'[m]\nsource = "oci://{host}/models/nothing"\nrevision = "9"\n')
        done("lock", code=3)
        assert f"oci://{host}/models/nothing: " in capsys.readouterr().err
        subprocess.run(["docker", "image", "rm", "--force", f"{host}/models/topic:1"], check=True)
        registry.shutdown()
