"""What a company sets once reaches the tools of the images: its package index, its registry, its packages of Debian."""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import pytest
from image_tools import package_index, push
from image_tools.build_plan import write_plan
from image_tools.catalog import ImageError, find_row
from image_tools.check import check_rows

from .conftest import CATALOG

INDEX = "https://user:p%40ss@index.example.com/simple"


@pytest.fixture
def pip_conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pip.conf of a company, and no other setting."""
    uv = ("UV_DEFAULT_INDEX", "UV_INDEX", "SSL_CERT_FILE")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CERT", *uv):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "pip.conf"
    extra = "file:///opt/mine\n    https://more.example.com/simple"
    path.write_text(
        f"[global]\nindex-url = {INDEX}\nextra-index-url = {extra}\nfind-links = /opt/mine\ncert = /opt/ca.pem\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
    return path


def test_a_lock_is_resolved_against_the_index_of_pips_settings(pip_conf: Path) -> None:
    """Folders of this machine are left out: an image must not depend on them."""
    found = package_index.lock_environment()
    indexes = {key: found.get(key) for key in ("SSL_CERT_FILE", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS")}
    assert indexes == {
        "SSL_CERT_FILE": "/opt/ca.pem",
        "UV_DEFAULT_INDEX": INDEX,
        "UV_INDEX": "https://more.example.com/simple",
        "UV_FIND_LINKS": None,
    }


def test_a_build_gets_the_index_as_a_secret_file(pip_conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password is in no argument; a setting of uv wins; without settings there is no secret."""
    with package_index.secret_pip_conf() as options:
        assert options[0] == "--secret"
        assert INDEX not in " ".join(options)
        file = Path(options[1].partition("src=")[2])
        assert f"index-url = {INDEX}\n" in file.read_text()
        assert "/opt/" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
    assert not file.exists()
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://uv.example.com/simple")
    assert package_index.remote_settings()["index-url"] == "https://uv.example.com/simple"
    pip_conf.write_text("")
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    settings = {key for key in package_index.remote_settings() if key in package_index.ADDRESSES}
    assert not settings


def test_push_takes_what_was_built_for_its_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make images REGISTRY=ours`, `make push REGISTRY=ours`; an image that was built without REGISTRY counts too."""
    docker = tmp_path / "docker"
    told = '[{"RootFS": {"Layers": []}, "Config": {}}]'
    docker.write_text(f'#!/bin/sh\ngrep -qx "$3" "$BUILT" && echo \'{told}\'\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("BUILT", str(tmp_path / "built"))
    row = find_row(CATALOG, "plain-cu13") | {"platform": "linux/amd64"}
    arguments = argparse.Namespace(registry="ours.example.com/ml", source="")
    tag = f"ours.example.com/ml/plain-cu13:{CATALOG['release']}"
    for built in (tag, f"registry.example.com/ml/plain-cu13:{CATALOG['release']}"):
        (tmp_path / "built").write_text(f"{built}\n")
        assert push.built(CATALOG, row, arguments)[0] == built
    (tmp_path / "built").write_text("")
    with pytest.raises(ImageError, match=r"make images IMAGE=plain-cu13 REGISTRY=ours\.example\.com/ml"):
        push.built(CATALOG, row, arguments)


def test_a_row_has_packages_of_debian_in_addition(tmp_path: Path) -> None:
    catalog = copy.deepcopy(CATALOG)
    row = find_row(catalog, "plain-cu13")
    row["apt"] = ["ffmpeg", "libsndfile1"]
    check_rows(catalog, [row])
    write_plan(catalog, row, tmp_path / "plan")
    assert (tmp_path / "plan/refresh/apt").read_text() == "ffmpeg\nlibsndfile1\n"
