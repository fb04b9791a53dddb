"""Where weights come from: the hub, addresses, buckets and packages, and what each of them may do wrong."""

from __future__ import annotations

import pytest
from gpu_repo_runtime.weights import lockfile

from tests.batch.object_store import object_store
from tests.runtime.weights_projects import HUB, LARGE, Project, contents, done, fetched
from tests.runtime.weights_server import COMMIT, REPOSITORY, serving

pytestmark = pytest.mark.usefixtures("own_cache")  # the user's own is out of reach


def test_a_repository_of_the_hub_is_locked_to_its_commit(project, web, monkeypatch, capsys) -> None:
    web.publish({"config.json": b"{}", "model.bin": LARGE, "unasked.bin": LARGE})
    web.cuts[f"/{REPOSITORY}/resolve/{COMMIT}/model.bin"] = [1_000_000, 700_000]
    monkeypatch.setenv("HF_ENDPOINT", web.address)
    monkeypatch.setenv("HF_TOKEN", "secret")
    folder = project(HUB)
    done("lock")
    [found] = lockfile.read(folder / "weights.lock").weights
    assert (found.revision, [file.path for file in found.files]) == (COMMIT, ["config.json", "model.bin"])
    assert web.times(f"/{REPOSITORY}/resolve/{COMMIT}/model.bin") == 3, "a transfer that broke off begins again"
    assert {login for _, login in web.asked} == {"Bearer secret"}
    web.asked.clear()
    assert contents(fetched(capsys)) == {"encoder/config.json": b"{}", "encoder/model.bin": LARGE}
    assert web.asked == [], "the cache holds all, and the hub was asked again"


def test_the_hub_gives_other_bytes_of_the_same_length(project, web, monkeypatch, capsys, tmp_path) -> None:
    web.publish({"config.json": b"{}", "model.bin": LARGE})
    monkeypatch.setenv("HF_ENDPOINT", web.address)
    project(HUB)
    done("lock")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    web.there[f"/{REPOSITORY}/resolve/{COMMIT}/model.bin"] = LARGE[::-1]
    done("fetch", code=1)
    done("lock", code=1)
    assert capsys.readouterr().err.count("[encoder] model.bin has the SHA-256 ") == 2


def test_a_token_is_for_its_host_alone(project, web, monkeypatch) -> None:
    with serving() as other:
        other.there["/large"] = LARGE
        web.publish({"config.json": b"{}", "model.bin": LARGE})
        web.moved[f"/{REPOSITORY}/resolve/{COMMIT}/model.bin"] = f"{other.address}/large"
        monkeypatch.setenv("HF_ENDPOINT", web.address)
        monkeypatch.setenv("HF_TOKEN", "secret")
        project(HUB)
        done("lock")
        assert [login for _, login in other.asked] == [""]


def test_a_page_before_a_login_is_not_locked_as_weights(project, web, capsys) -> None:
    for name, code in (("m.safetensors", 3), ("vocab", 3), ("page.html", 0)):
        web.there[f"/{name}"] = b"\n<!DOCTYPE html><title>Please log in</title>"
        web.headers[f"/{name}"] = {"Content-Type": "text/html; charset=utf-8"}
        folder = project(f'[m]\nsource = "{web.address}/{name}"\n')
        done("lock", code=code)
        assert ("answered with a web page" in capsys.readouterr().err) == bool(code), name
        assert (folder / "weights.lock").exists() == (not code), name


def test_a_busy_server_is_asked_again_and_one_that_stays_so_is_named(project, web, capsys) -> None:
    web.there["/model.bin"] = LARGE
    web.busy = 2
    project(f'[m]\nsource = "{web.address}/model.bin"\n')
    done("lock")
    web.busy = 99
    done("lock", code=3)
    assert "503 Service Unavailable" in capsys.readouterr().err


def test_a_secret_in_an_address_is_refused_and_not_shown(project: Project, capsys) -> None:
    host = "127.0.0.1:1/a.bin"
    for address in (f"user:pass@{host}", f"pass@{host}", f"{host}?x=1&X-Amz-Signature=pass", f"{host}?api_key=pass"):
        project(f'[m]\nsource = "http://{address}"\n')
        done("lock", code=2)
        told = capsys.readouterr().err
        assert "weights.toml, [m]: source has a password or a signature in it" in told
        assert "pass@" not in told
        assert "=pass" not in told


def test_a_login_comes_from_netrc_and_is_for_its_host_alone(project, web, capsys, tmp_path, monkeypatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login user password pass\ndefault login other password no\n")
    web.opens = "Basic dXNlcjpwYXNz"
    web.there["/model.bin"] = b"1"
    with serving(there={"/model.bin": b"1"}) as elsewhere:
        web.moved["/moved.bin"] = f"http://localhost:{elsewhere.port}/model.bin"
        project(f'[m]\nsource = "{web.address}"\nfiles = ["model.bin", "moved.bin"]\n')
        monkeypatch.setenv("NETRC", str(tmp_path / "none"))
        done("lock", code=3)
        assert "401" in capsys.readouterr().err
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        done("lock")
        assert [login for _, login in elsewhere.asked] == [""]


@pytest.fixture
def bucket_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say who is there as the tools of the cloud do."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anyone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")


@pytest.mark.slow
def test_objects_of_a_bucket(project: Project, capsys, bucket_login) -> None:
    with object_store() as objects:
        objects.put("w/a.bin", LARGE)
        objects.put("w/sub/b.bin", b"b")
        project(f'[m]\nsource = "{objects.public_uri("w")}"\n')
        done("lock")
        assert contents(fetched(capsys)) == {"m/a.bin": LARGE, "m/sub/b.bin": b"b"}


def test_a_folder_with_a_lock_gives_one_name_and_no_other_bytes(project, capsys, tmp_path, monkeypatch) -> None:
    project('[topic]\nsource = "made"\n', made__best_dot_bin=b"good")
    done("lock")
    done("fetch", "--into", tmp_path / "pushed")
    for name in ("topic", "other"):
        project(f'[{name}]\nsource = "{tmp_path / "pushed"}"\n')
        done("lock")
        assert contents(fetched(capsys)) == {f"{name}/best.bin": b"good"}
    (tmp_path / "pushed/topic/best.bin").unlink()
    (tmp_path / "pushed/topic/best.bin").write_bytes(b"evil")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    done("lock", code=1)
    assert "[other] best.bin has the SHA-256 " in capsys.readouterr().err
