"""Weights: which bytes they are, how they come here, and that nothing else counts as them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_repo_runtime.weights import cli, lockfile, store

from tests.runtime.weights_projects import FOLDER, LARGE, Project, contents, done, fetched
from tests.runtime.weights_server import REPOSITORY

pytestmark = pytest.mark.usefixtures("own_cache")  # the user's own is out of reach


def test_a_folder_is_locked_and_fetched(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    text = FOLDER.replace('"*.bin"', '"*.bin", "sub/*"')
    folder = project(text, stored__a_dot_bin=b"a", stored__sub__deep__b_dot_txt=b"b", stored__left_dot_out=b"c")
    done("lock")
    before = (folder / "weights.lock").read_bytes()
    [weights] = json.loads(before)["weights"]
    assert (weights["name"], weights["source"]) == ("words", "stored")
    assert weights["files"][0] == {"path": "a.bin", "size": 1, "sha256": lockfile.sha256_of(folder / "stored/a.bin")}
    assert contents(fetched(capsys)) == {"words/a.bin": b"a", "words/sub/deep/b.txt": b"b"}
    done("lock")
    assert (folder / "weights.lock").read_bytes() == before
    (folder / "stored/a.bin").write_bytes(b"b")
    done("lock")
    assert json.loads((folder / "weights.lock").read_text())["digest"] != json.loads(before)["digest"]


def test_other_bytes_than_the_locks_are_refused_and_nothing_is_left(project: Project, capsys) -> None:
    folder = project(FOLDER, stored__a_dot_bin=b"first")
    done("lock")
    (folder / "stored/a.bin").write_bytes(b"other")
    shutil.rmtree(store.cache())
    done("fetch", code=1)
    assert "[words] a.bin has the SHA-256 " in capsys.readouterr().err
    assert [path for path in store.cache().rglob("*") if path.is_file()] == []


def test_a_path_that_leads_out_is_refused(project, web, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HF_ENDPOINT", web.address)
    folder = project(f'[encoder]\nsource = "hf://{REPOSITORY}"\n')
    for path in ("../out.bin", "/etc/out.bin", "a/../../out.bin", "a//b", "a\\b", "C:x", "a\nb", "", "."):
        web.publish({path: b"1", "same": b"1"})
        done("lock", code=1)
        assert "not a path below" in capsys.readouterr().err, path
        assert not (folder / "weights.lock").exists(), path
        assert not list(folder.parent.rglob("out.bin")), path


def test_a_lock_that_is_not_whole_is_refused(project: Project, capsys) -> None:
    folder = project(FOLDER, stored__a_dot_bin=b"a")
    done("lock")
    whole = (folder / "weights.lock").read_text()
    paths = [whole.replace('"a.bin"', f'"{path}"') for path in ("../out.bin", "/out.bin")]
    for changed in (whole[:-40], "[]", whole.replace('"size": 1', '"size": -1'), *paths):
        (folder / "weights.lock").write_text(changed)
        done("fetch", code=1)
        assert "scripts/weights lock writes it anew" in capsys.readouterr().err, changed


MISTAKES = [
    ("", "names no weights"),
    ("[a]\n", 'expected source = "..."'),
    ('a = "x"\n', 'expected source = "..."'),
    ('["../a"]\nsource = "x"\n', "invalid name"),
    ('[a]\nsource = "x"\nrevison = "1"\n', "it has source, revison"),
    ('[a]\nsource = "x"\nfiles = "a.bin"\n', 'files = ["..."]'),
    ("[a\n", "cannot be read"),
    ('[a]\nsource = "stored"\nfiles = ["*.nope"]\n', "no file of stored matches *.nope; it has a.bin"),
    ('[a]\nsource = "stored"\nfiles = ["*.bin", "b.bin"]\n', "no file of stored matches b.bin; it has a.bin"),
    ('[a]\nsource = "ftp://x/y"\n', "use hf://, oci://"),
    ('[a]\nsource = "http://example.com/y"\n', "use https://"),
    ('[a]\nsource = "https://example.com/y/"\n', "has no list of files"),
    ('[a]\nsource = "https://example.com/y"\nfiles = ["*"]\n', "has no list of files"),
    ('[a]\nsource = "hf://a/b/c"\n', "expected hf://OWNER/NAME"),
    ('[a]\nsource = "oci://example.com/y"\n', "expected a tag"),
    ('[a]\nsource = "stored"\nrevision = "2"\n', "stored has no revisions"),
]


def test_what_is_wrong_in_weights_toml_is_named(project: Project, capsys) -> None:
    for text, told in MISTAKES:
        project(text, stored__a_dot_bin=b"a")
        done("lock", code=2)
        [line] = capsys.readouterr().err.splitlines()
        assert told in line, (text, told)


def test_verify_finds_a_changed_byte_and_fetch_mends_it(project: Project, capsys) -> None:
    project(FOLDER, stored__a_dot_bin=LARGE)
    done("lock")
    place = fetched(capsys) / "words/a.bin"
    place.chmod(0o644)
    with place.open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    done("verify", code=1)
    assert "words/a.bin: run scripts/weights fetch" in capsys.readouterr().err
    assert contents(fetched(capsys)) == {"words/a.bin": LARGE}
    done("verify")


def test_a_folder_for_a_volume_is_filled_once(project: Project, tmp_path, capsys) -> None:
    folder = project(FOLDER, stored__a_dot_bin=LARGE)
    done("lock")
    done("fetch", "--into", tmp_path / "volume")
    assert (tmp_path / "volume/weights.lock").read_bytes() == (folder / "weights.lock").read_bytes()
    assert (tmp_path / "volume/words/a.bin").read_bytes() == LARGE
    done("verify", "--from", tmp_path / "volume")
    (folder / "stored/a.bin").write_bytes(LARGE[::-1])
    done("lock")
    done("fetch", "--into", tmp_path / "volume")
    assert (tmp_path / "volume/words/a.bin").read_bytes() == LARGE[::-1]


def test_whoever_fetched_them_another_user_may_read_them(project: Project, capsys) -> None:
    """The layer of an image keeps the modes, and the container's user is another one."""
    project(FOLDER, stored__sub__a_dot_bin=b"a")
    before = os.umask(0o077)
    try:
        done("lock")
        place = fetched(capsys)
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (place, *place.rglob("*"))}
    assert set(modes.values()) == {"0o755", "0o444", "0o644"}, modes


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gpu_repo_runtime.weights", *arguments]
    source = str(Path(cli.__file__).resolve().parents[2])
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": source})


@pytest.mark.slow
def test_killed_half_way_the_next_one_goes_on(project, web, capsys) -> None:
    """The file at work is brought again; those before it stay."""
    web.there |= {"/first.bin": b"first", "/model.bin": LARGE}
    project(f'[m]\nsource = "{web.address}"\nfiles = ["first.bin", "model.bin"]\n')
    done("lock")
    shutil.rmtree(store.cache())
    web.cuts["/model.bin"] = [1_200_000] + [0] * 1000  # all transfers break off
    web.asked.clear()
    process = started("fetch")
    deadline = time.monotonic() + 20
    while web.times("/model.bin") < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    told = process.communicate()[1]
    assert "the transfer broke off" in told, f"it was killed too early or too late: {told}"
    del web.cuts["/model.bin"]
    web.asked.clear()
    assert contents(fetched(capsys)) == {"m/first.bin": b"first", "m/model.bin": LARGE}
    assert web.times("/first.bin") == 0


@pytest.mark.slow
def test_two_at_once_fetch_once(project, web) -> None:
    web.there["/model.bin"] = LARGE
    folder = project(f'[m]\nsource = "{web.address}/model.bin"\n')
    done("lock")
    shutil.rmtree(store.cache())
    web.asked.clear()
    both = [started("fetch"), started("fetch")]
    told = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert web.times("/model.bin") == 1
    place = store.place_of(lockfile.read(folder / "weights.lock"))
    assert contents(place) == {"m/model.bin": LARGE}


def test_a_lock_that_weights_toml_has_left_behind_is_refused(project: Project, capsys) -> None:
    folder = project('[m]\nsource = "stored"\n', stored__a_dot_bin=b"a", stored__b_dot_bin=b"b")
    done("lock")
    (folder / "weights.toml").write_text("# the same with a word more\n" + (folder / "weights.toml").read_text())
    done("fetch")
    done("verify")
    files = ["a.bin", "b.bin"]
    for text in (
        '[other]\nsource = "stored"\n',
        '[m]\nsource = "./stored"\n',
        f'[m]\nsource = "stored"\nfiles = {files}\n',
        f'[m]\nsource = "stored"\nrevision = "{"a" * 40}"\n',
    ):
        (folder / "weights.toml").write_text(text)
        for command in ("fetch", "verify"):
            done(command, code=1)
            told = capsys.readouterr().err.splitlines()[-1]
            assert told.endswith("] was changed: run scripts/weights lock"), text
    old = json.loads((folder / "weights.lock").read_text())  # of version 0.5, which recorded less
    del old["weights"][0]["asked"]
    old["weights"][0]["revision"] = "b" * 40
    (folder / "weights.lock").write_text(json.dumps(old))
    for revision, code in (("main", 0), ("b" * 40, 0), ("a" * 40, 1)):
        (folder / "weights.toml").write_text(f'[m]\nsource = "stored"\nrevision = "{revision}"\n')
        done("fetch", code=code)
