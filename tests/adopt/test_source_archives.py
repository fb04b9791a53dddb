"""What locks an old repository runs nothing of it and builds nothing: a source archive is read."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from adoption.room import furnish, run_lock, settle
from adoption.source_archives import Archive, UnreadableError, required, wanted_from

from tests.updates.tiny import write_files

OLD_FORM = "Metadata-Version: 2.1\nName: x\n"


def test_where_locks_are_made_there_is_no_setting_of_the_repository(tmp_path: Path) -> None:
    write_files(
        tmp_path / "render", {"scripts/lock": "ls -A; cat uv.toml pyproject.toml; exit 1\n", "constraints.txt": ""}
    )
    project = "[project]\nname = 'x'\ndependencies = ['a']\n[tool.uv]\nfind-links = ['evil']\n"
    write_files(
        tmp_path / "clone",
        {"pyproject.toml": project, ".env": "LD_PRELOAD=./evil.so\n", "uv.toml": "evil", ".venv/bin/uv": "evil"},
    )
    furnish(tmp_path / "room", tmp_path / "render", tmp_path / "clone" / "pyproject.toml")
    said = run_lock(tmp_path / "room")
    assert "evil" not in said, said
    assert ".env" not in said.splitlines(), said
    assert tomllib.loads((tmp_path / "room" / "pyproject.toml").read_text())["project"]["dependencies"] == ["a"]


@pytest.mark.parametrize("own", [None, "[pip]\nno-build = false\nonly-binary = [':none:']\n"])
def test_nothing_is_built_whatever_the_person_set(
    own: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if own:
        (tmp_path / "own.toml").write_text(own)
        monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "own.toml"))
    settle(tmp_path, [Archive("pure", "1.0", ("a>=1",))])
    found = tomllib.loads((tmp_path / "uv.toml").read_text())
    assert found["pip"] == {"no-build": True, "no-binary": ["pure"]}
    assert found["dependency-metadata"] == [{"name": "pure", "requires-dist": ["a>=1"]}]
    assert "pure==1.0" in (tmp_path / "constraints.txt").read_text()


MESSAGE = (
    "Because antlr4-python3-runtime>=4.9 has no usable wheels and omegaconf==2.3.0 depends on\n"
    " antlr4-python3-runtime==4.9.* and you require omegaconf==2.3.0, unsatisfiable.\n"
    "hint: Wheels are required for `antlr4-python3-runtime` because building from source is disabled for all packages"
)


def test_the_message_says_which_archive_is_wanted() -> None:
    assert wanted_from(MESSAGE) == ["antlr4-python3-runtime==4.9.*"]
    assert wanted_from("you require docopt, unsatisfiable. hint: Wheels are required for `docopt` because") == [
        "docopt"
    ]
    assert wanted_from("Because a==1 was not found") == []


READ = {
    "setuptools without requires.txt": ({"x-1/PKG-INFO": OLD_FORM, "x-1/x.egg-info/SOURCES.txt": ""}, ()),
    "setuptools": (
        {"x-1/x.egg-info/requires.txt": "a>=1\n\n[:python_version < '3.12']\nb\n\n[more]\nc\n"},
        ("a>=1", "b ; (python_version < '3.12')", "c ; extra == 'more'"),
    ),
    "another backend": ({"x-1/PKG-INFO": f"{OLD_FORM}Requires-Dist: a<2\n"}, ("a<2",)),
    "plain words of distutils": (
        {"x-1/PKG-INFO": "Metadata-Version: 1.1\n", "x-1/setup.py": "R = ['a']\nsetup(name='x', install_requires=R)\n"},
        ("a",),
    ),
    "distutils, which asks for nothing": (
        {"x-1/PKG-INFO": "Metadata-Version: 1.1\n", "x-1/setup.py": "setup(name='x')\n"},
        (),
    ),
    "none is asked for": ({"x-1/PKG-INFO": "Metadata-Version: 2.2\nName: x\n"}, ()),
}


@pytest.mark.parametrize("kind", READ)
def test_a_pure_archive_is_read(kind: str) -> None:
    files, expected = READ[kind]
    assert required(files) == expected, kind


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"x-1/src/x.pyx": ""}, "code to compile"),
        ({"x-1/PKG-INFO": OLD_FORM, "x-1/setup.py": ""}, "running it alone"),
        ({"x-1/PKG-INFO": OLD_FORM, "x-1/setup.py": "setup(**found())\n"}, "running it alone"),
        ({"x-1/PKG-INFO": OLD_FORM, "x-1/setup.py": "setup(name='x')\n", "x-1/setup.cfg": ""}, "running it alone"),
        (
            {"x-1/setup.py": "import os\nfrom pkg_resources import parse_version\n"},
            "needs pkg_resources, which is gone",
        ),
        ({"x-1/setup.py": "setup(use_2to3=True)\n"}, "needs use_2to3"),
    ],
)
def test_an_archive_that_would_have_to_run_is_of_no_use(files: dict[str, str], why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        required(files)
