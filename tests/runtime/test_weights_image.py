"""Weights as an image in a registry."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime.weights import lockfile, packing
from gpu_repo_runtime.weights.problems import WeightsError
from gpu_repo_runtime.weights.registry import Registry, split
from gpu_repo_runtime.weights.sources.image import _image_of

from tests.images.registries import read_blob, read_manifest, running
from tests.runtime.weights_projects import LARGE, Project, contents, done, fetched

pytestmark = pytest.mark.usefixtures("own_cache")  # the user's own is out of reach


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry on a free port of this machine, with an account; yields host:port."""
    with running(tmp_path_factory.mktemp("registry")) as address:
        yield address


def pushed(capsys: pytest.CaptureFixture[str], destination: str) -> tuple[str, str]:
    """Push; return what is to be written into weights.toml, and what was told."""
    capsys.readouterr()
    done("push", destination)
    said = capsys.readouterr()
    return said.out, said.err


def test_pushed_and_named_by_a_service(project: Project, host: str, tmp_path, monkeypatch, capsys) -> None:
    project('[topic]\nsource = "made"\n', made__best_dot_bin=LARGE, made__deep__vocab_dot_txt=b"a\nb")
    done("lock")
    before = lockfile.read(Path("weights.lock")).digest
    lines, _ = pushed(capsys, f"oci://{host}/models/topic:1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    folder = project(lines)
    done("lock")
    found = lockfile.read(folder / "weights.lock")
    assert found.digest == before
    assert contents(fetched(capsys)) == {"topic/best.bin": LARGE, "topic/deep/vocab.txt": b"a\nb"}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "third"))
    assert contents(fetched(capsys)) == {"topic/best.bin": LARGE, "topic/deep/vocab.txt": b"a\nb"}
    manifest = read_manifest(host, "models/topic", found.weights[0].revision)
    assert [one["annotations"]["org.opencontainers.image.title"] for one in manifest["layers"]] == [
        "weights.lock",
        "topic/best.bin",
        "topic/deep/vocab.txt",
    ]


def test_an_empty_file_is_a_file(project: Project, host: str, tmp_path, monkeypatch, capsys) -> None:
    """Folders of models hold an __init__.py; a registry has no range for nothing."""
    project('[topic]\nsource = "made"\n', made__best_dot_bin=b"1")
    (Path("made") / "__init__.py").write_bytes(b"")
    done("lock")
    lines, _ = pushed(capsys, f"oci://{host}/models/empty:1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    project(lines)
    done("lock")
    found = contents(fetched(capsys))
    assert (found["topic/__init__.py"], found["topic/best.bin"]) == (b"", b"1")


def test_what_is_there_is_not_sent_again(project: Project, host: str, capsys) -> None:
    folder = project('[topic]\nsource = "made"\n', made__best_dot_bin=LARGE, made__vocab_dot_txt=b"a")
    done("lock")
    first, told = pushed(capsys, f"oci://{host}/models/again:1")
    assert "3.1 MB went there" in told
    again, told = pushed(capsys, f"oci://{host}/models/again:1")
    assert (again, "; 0 B went there" in told) == (first, True)
    (folder / "made/vocab.txt").write_bytes(b"another")
    done("lock")
    _, told = pushed(capsys, f"oci://{host}/models/again:2")
    assert re.search(r"; \d kB went there", told), told


def test_it_is_an_image_that_others_unpack(project: Project, host: str, tmp_path, capsys) -> None:
    """A container runtime mounts what has layers of tar and their hashes in its config, and nothing else."""
    project('[topic]\nsource = "made"\n', made__best_dot_bin=LARGE)
    done("lock")
    pushed(capsys, f"oci://{host}/models/mounted:1")
    manifest = read_manifest(host, "models/mounted", "1")
    config = json.loads(read_blob(host, "models/mounted", manifest["config"]["digest"]))
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
    for layer in manifest["layers"]:
        content = read_blob(host, "models/mounted", layer["digest"])
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(tmp_path / "mounted", filter="data")
            assert {(one.mode, one.uid, one.mtime) for one in archive} == {(0o644, 0, 0)}
    assert (tmp_path / "mounted/models/topic/best.bin").read_bytes() == LARGE
    assert (tmp_path / "mounted/models/weights.lock").read_bytes() == Path("weights.lock").read_bytes()


def image(host: str, name: str, entries: list[tuple[str, bytes, bytes]], packed: bool = True) -> None:
    """Put an image into the registry as other tools make them: one layer; entries are (name, content, type)."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path, content, kind in entries:
            entry = tarfile.TarInfo(path)
            entry.type, entry.size, entry.linkname = (
                kind,
                len(content),
                "/etc/passwd" if kind == tarfile.SYMTYPE else "",
            )
            archive.addfile(entry, io.BytesIO(content))
    layer = gzip.compress(plain.getvalue(), mtime=0) if packed else plain.getvalue()
    registry = Registry(host, name, push=True)
    diff = "sha256:" + hashlib.sha256(plain.getvalue()).hexdigest()
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [diff]}}
    ).encode()
    rows: list[dict[str, Any]] = []
    kinds = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar" + "+gzip" * packed
    for content, kind in zip((config, layer), kinds, strict=True):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        registry.put_blob(digest, len(content), iter([content]))
        rows.append({"mediaType": kind, "digest": digest, "size": len(content)})
    manifest = {"schemaVersion": 2, "mediaType": packing.MANIFEST, "config": rows[0], "layers": rows[1:]}
    registry.put_manifest("1", json.dumps(manifest).encode())


@pytest.mark.parametrize("packed", [True, False])
def test_an_image_that_another_tool_made(project: Project, host: str, capsys, packed: bool) -> None:
    kind = tarfile.REGTYPE
    image(host, "others/it", [("./models/a.bin", LARGE, kind), ("./etc/other", b"x", kind)], packed)
    project(f'[m]\nsource = "oci://{host}/others/it:1"\n')
    done("lock")
    assert contents(fetched(capsys)) == {"m/a.bin": LARGE}


@pytest.mark.parametrize("name", ["models/../../../out.bin", "models//out.bin", "models/link"])
def test_an_image_with_a_path_that_leads_out(project: Project, host: str, tmp_path, capsys, name: str) -> None:
    kind = tarfile.SYMTYPE if name.endswith("link") else tarfile.REGTYPE
    image(host, "others/evil", [(name, b"" if kind == tarfile.SYMTYPE else b"x", kind)])
    project(f'[m]\nsource = "oci://{host}/others/evil:1"\n')
    done("lock", code=1)
    told = capsys.readouterr().err
    assert "not a path below" in told or "is a link or a device" in told
    assert not list(tmp_path.rglob("out.bin"))


def test_a_missing_tag_and_no_registry_are_told(project: Project, host: str, capsys) -> None:
    project(f'[m]\nsource = "oci://{host}/models/nothing:9"\n')
    done("lock", code=3)
    assert "404" in capsys.readouterr().err
    project('[m]\nsource = "oci://localhost:1/models/nothing:9"\n')
    done("lock", code=3)
    assert "does not answer" in capsys.readouterr().err


def test_the_login_is_dockers_and_the_environment_wins(tmp_path, monkeypatch) -> None:
    (tmp_path / "docker").mkdir()
    pair = base64.b64encode(b"me:mine").decode()
    (tmp_path / "docker/config.json").write_text(json.dumps({"auths": {"host.example.com": {"auth": pair}}}))
    assert Registry("host.example.com", "a/b")._headers() == {"Authorization": f"Basic {pair}"}
    assert Registry("other.example.com", "a/b")._headers() == {}
    monkeypatch.setenv("REGISTRY_USER", "ci")
    monkeypatch.setenv("REGISTRY_PASSWORD", "word")
    other = base64.b64encode(b"ci:word").decode()
    assert Registry("host.example.com", "a/b")._headers() == {"Authorization": f"Basic {other}"}


@pytest.mark.parametrize("reference", ["", "host", "host/UPPER", "host/a b", "../a/b", "host/a:b:c", "host/a@sha256:1"])
def test_a_reference_that_is_none_is_refused(reference: str) -> None:
    with pytest.raises(WeightsError, match="write oci://HOST/REPOSITORY"):
        split(reference)


def test_a_program_of_dockers_is_asked_for_the_login(tmp_path, monkeypatch) -> None:
    (tmp_path / "docker").mkdir()
    program = tmp_path / "docker-credential-kept"
    program.write_text(
        '#!/bin/sh\nread host\n[ $host = host.example.com ] || exit 1\necho \'{"Username":"me","Secret":"mine"}\'\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    known = {"credsStore": "kept", "auths": {"host.example.com": {}}}
    (tmp_path / "docker/config.json").write_text(json.dumps(known))
    pair = base64.b64encode(b"me:mine").decode()
    assert Registry("host.example.com", "a/b")._headers() == {"Authorization": f"Basic {pair}"}
    assert Registry("other.example.com", "a/b")._headers() == {}
    (tmp_path / "docker/config.json").write_text(json.dumps({"credHelpers": {"host.example.com": "gone"}}))
    assert Registry("host.example.com", "a/b")._headers() == {}


def test_the_image_of_an_index_is_not_what_was_signed_about_it() -> None:
    about = {"digest": "sha256:1", "platform": {"os": "unknown", "architecture": "unknown"}}
    assert _image_of([about, {"digest": "sha256:2", "platform": {"os": "linux"}}]) == "sha256:2"
