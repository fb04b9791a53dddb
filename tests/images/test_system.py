"""Debian's packages in the images are those of base-images/os.lock, or build and promotion say why not."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from image_tools import plan, system
from image_tools.catalog import FOLDER, ImageError, find_row, read_catalog

SCRIPT = FOLDER / "recipe" / "install" / "debian.sh"
LOCK = """\
[snapshot]
trixie=20261121T091544Z
[amd64 image]
bash=5.2.37-2
login=1:4.16.0-2+really2.41.5
[amd64 installer]
binutils=2.44-3
[amd64 devel]
gcc=4:14.2.0-1
"""
# Stand-ins for apt and dpkg: HERE and OFFERED are lists of name=version, ASKED the file for apt-get's arguments.
STANDINS = {
    "dpkg-query": 'for one in $HERE; do echo "ii $one"; done',
    "apt-cache": 'for one in $OFFERED; do printf "%10s | %10s | mirror\\n" "${one%%=*}" "${one#*=}"; done',
    "apt-get": 'echo "$*" >>"$ASKED"',
}


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small lock in the place of the repository's."""
    path = tmp_path / "os.lock"
    path.write_text(LOCK)
    monkeypatch.setattr(system, "OS_LOCK", path)
    monkeypatch.delenv("OS_LOCK", raising=False)
    monkeypatch.delenv("OS_SOURCES", raising=False)
    return path


def bill(path: Path, **packages: str) -> Path:
    """Write a list of packages in SPDX: these of Debian, and one of Python."""
    urls = [f"pkg:deb/debian/{name}@{version}?arch=amd64&distro=debian-13" for name, version in packages.items()]
    listed = [
        {"name": "x", "externalRefs": [{"referenceType": "purl", "referenceLocator": url}]}
        for url in [*urls, "pkg:pypi/numpy@2.5.0"]
    ]
    path.write_text(json.dumps({"packages": listed}))
    return path


def test_the_lock_of_the_repository_pins_what_the_recipe_names() -> None:
    """Each package that debian/*.txt names has a version, an epoch included, and the day of each release is told."""
    locked = system.read_os_lock()
    for part in system.PARTS:
        names = re.sub(r"#.*| \[.*\]", "", (SCRIPT.parent / "debian" / f"{part}.txt").read_text()).split()
        there = locked[part].keys() | locked["image"].keys()
        missing = [name for name in names if not any(re.fullmatch(rf"{re.escape(name)}(t64)?", one) for one in there)]
        assert not missing, f"os.lock, {part}: {missing}; renew it with `make lock-os`"
    assert locked["image"]["bsdutils"].startswith("1:")
    assert {"taken", "trixie", "trixie-security"} <= locked["snapshot"].keys()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot read the lock"),
        ("bash=5\n", "cannot read the lock"),
        (LOCK.replace("[amd64 devel]", "[arm64 devel]"), "cannot read the lock .*amd64 devel"),
        (LOCK.replace("bash=5.2.37-2", "bash="), "no version of image bash"),
    ],
    ids=["empty", "no section", "another architecture", "no version"],
)
def test_a_broken_lock_is_one_clear_line(lock: Path, text: str, words: str) -> None:
    lock.write_text(text)
    with pytest.raises(ImageError, match=rf"{words}.*renew it with `make lock-os`") as failure:
        system.read_os_lock()
    assert len(str(failure.value).splitlines()) == 1


def test_a_plan_pins_all_or_says_newest(lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new day makes the layer of updates again and nothing below it; with the lock, no day changes anything."""
    catalog = read_catalog()
    row = find_row(catalog, "plain-cu13")
    system.write_system_plan(tmp_path / "locked")
    assert (tmp_path / "locked/debian/image.txt").read_text() == "bash=5.2.37-2\nlogin=1:4.16.0-2+really2.41.5\n"
    assert (tmp_path / "locked/debian/mode").read_text() == "locked\n"
    assert (tmp_path / "locked/refresh/day").read_text() == ""
    assert plan.image_facts(catalog, row)["os_lock"] == system.sha256_of(lock)

    monkeypatch.setenv("OS_LOCK", "newest")
    (tmp_path / "snapshot.list").write_text("deb file:/mirror trixie main\n")
    monkeypatch.setenv("OS_SOURCES", str(tmp_path / "snapshot.list"))
    system.write_system_plan(tmp_path / "newest")
    assert (tmp_path / "newest/debian/mode").read_text() == "newest\n"
    assert (tmp_path / "newest/debian/sources.list").read_text() == "deb file:/mirror trixie main\n"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d\n", (tmp_path / "newest/refresh/day").read_text())
    assert plan.labels(catalog, row)["org.gpu-repo-family.os-lock"] == "newest"

    monkeypatch.setenv("OS_SOURCES", str(tmp_path / "missing"))
    with pytest.raises(ImageError, match=r"OS_SOURCES=.*missing: cannot read the sources for apt"):
        system.write_system_plan(tmp_path / "none")
    monkeypatch.setenv("OS_LOCK", "latest")
    with pytest.raises(ImageError, match="OS_LOCK=latest: expected newest"):
        system.mode()


def test_the_day_reaches_the_layer_of_updates_alone() -> None:
    """BuildKit makes a step again when what it mounts has changed: so a warm cache does not hide the updates."""
    stages = (FOLDER / "Dockerfile").read_text().split("\nFROM ")
    mounting = [stage.split("\n")[0] for stage in stages if "source=refresh" in stage]
    assert mounting == ["packages AS runtime"]


def test_no_tag_for_other_packages_than_the_locks(lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version, one more, one less; promoted as newest, it is what somebody asked for."""
    same = {"bash": "5.2.37-2", "login": "1:4.16.0-2%2Breally2.41.5"}
    system.check_system("image", bill(tmp_path / "same.json", **same))
    other = bill(tmp_path / "other.json", bash="5.2.37-3", sudo="1.9")
    with pytest.raises(ImageError) as failure:
        system.check_system("host/ml/x@sha256:1", other)
    told = str(failure.value)
    for words in (
        "bash 5.2.37-3, os.lock has 5.2.37-2",
        "login is missing",
        "sudo 1.9, os.lock has none",
        "no tag was set",
    ):
        assert words in told
    own = bill(tmp_path / "own.json", ffmpeg="7.1", **same)
    system.check_system("image", own, has_own=True)
    with pytest.raises(ImageError, match=r"bash 5\.2\.37-3"):
        system.check_system("image", bill(tmp_path / "old.json", bash="5.2.37-3", ffmpeg="7.1"), has_own=True)
    monkeypatch.setenv("OS_LOCK", "newest")
    system.check_system("image", other)


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """A folder of a plan, and stand-ins of Debian's programs first in PATH."""
    (tmp_path / "bin").mkdir()
    for name, text in STANDINS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "mode").write_text("locked\n")
    (tmp_path / "image.txt").write_text("bash=5.2\ntini=0.19\n")
    (tmp_path / "installer.txt").write_text("binutils=2.44\n")
    return tmp_path


def run_step(step: Path, part: str, here: str, offered: str, mode: str = "locked") -> tuple[int, str, str]:
    """Run the build step; return its exit code, what it said on standard error, and what apt-get was asked."""
    (step / "mode").write_text(f"{mode}\n")
    asked = step / "asked"
    asked.write_text("")
    environment = {
        "PATH": f"{step / 'bin'}:{os.environ['PATH']}",
        "HERE": here,
        "OFFERED": offered,
        "ASKED": str(asked),
    }
    command = ["bash", str(SCRIPT), "install", part, str(step)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, asked.read_text()


def test_the_build_installs_exactly_the_pins(step: Path) -> None:
    """By version, and what is there afterwards is compared: a package that nobody pinned came with something."""
    all_there = "bash=5.2 tini=0.19"
    code, said, asked = run_step(step, "image", all_there, all_there)
    assert (code, said) == (0, "")
    assert asked.splitlines()[1].endswith("--allow-downgrades bash=5.2 tini=0.19")
    code, said, asked = run_step(step, "installer", f"{all_there} binutils=2.44", "binutils=2.44")
    assert (code, said) == (0, "")
    assert asked.splitlines()[1].endswith("--allow-downgrades binutils=2.44")
    code, said, _ = run_step(step, "image", f"{all_there} perl=5.40", all_there)
    assert code == 1
    assert "the packages are others than those of the lock (here: perl=5.40; in the lock: none)" in said
    assert len(said.splitlines()) == 1


def test_a_version_that_debian_no_longer_has_is_named_before_anything_is_installed(step: Path) -> None:
    code, said, asked = run_step(step, "image", "bash=5.1", "bash=5.3 tini=0.19")
    assert code == 1
    assert "Debian no longer has bash=5.2" in said
    assert all(word in said for word in ("make lock-os", "OS_SOURCES=file", "OS_LOCK=newest"))
    assert len(said.splitlines()) == 1
    assert asked == "update\n"
    assert run_step(step, "image", "bash=5.2 tini=0.19", "tini=0.19")[0] == 0, "what is here need not be downloaded"


def test_newest_keeps_the_pins_that_debian_still_has(step: Path) -> None:
    """So that the layers below the updates stay as they are."""
    code, _, asked = run_step(step, "image", "bash=5.1", "bash=5.3 tini=0.19", mode="newest")
    assert code == 0
    words = asked.splitlines()[1].split()
    assert "tini=0.19" in words
    assert "bash" in words
    assert not [word for word in words if word.startswith("bash=")]
    assert "ca-certificates" in words, "what a lock does not know yet is installed too"
