"""The wheel, the tests and the line ends of an old repository stay as they were, and its secrets stay its own."""

from __future__ import annotations

import pytest
from adoption import merge
from adoption.adopting import refused_line
from adoption.locks import masked
from adoption.repository import AdoptError, check
from adoption.tree import read_tree

from tests.adopt.conftest import Make
from tests.adopt.test_detect import findings
from tests.conftest import git

SETUPTOOLS = "[build-system]\nbuild-backend = 'setuptools.build_meta'\n[project]\nname = 'other'\n"


def test_no_pyproject_is_written_that_would_stand_for_the_metadata_of_setup_py(old: Make) -> None:
    folder = old({"setup.py": "from setuptools import setup\nsetup(name='x')\n", "x/__init__.py": ""})
    assert merge.found_packages(folder, findings(folder), "x_gpu") == ""
    assert not (folder / "pyproject.toml").exists()
    assert "add packages=" in merge.searched(read_tree(folder), findings(folder), "x_gpu")


def test_a_folder_without_init_is_code_and_stays_in_the_wheel(old: Make) -> None:
    folder = old({"pyproject.toml": SETUPTOOLS, "acme/vis/__init__.py": "", "acme/txt/core.py": "x = 1\n"})
    assert findings(folder).layout.code == ["acme/"]
    merge.found_packages(folder, findings(folder), "other_gpu")
    assert 'include = ["acme", "acme.*"]' in (folder / "pyproject.toml").read_text()


def test_a_module_beside_a_package_in_src_stays_in_the_wheel(old: Make) -> None:
    folder = old({"pyproject.toml": SETUPTOOLS, "src/acme/__init__.py": "", "src/solo.py": "x = 1\n"})
    merge.found_packages(folder, findings(folder), "acme_gpu")
    assert 'py-modules = ["solo"]' in (folder / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", SETUPTOOLS + "[tool.setuptools.packages.find]\nwhere = ['src']\n"),
        ("setup.cfg", "[options]\npackages = find_namespace:\n"),
        ("setup.py", "setup(name='x', packages=find_packages('src'))\n"),
    ],
)
def test_a_search_that_would_find_the_template_is_named(name: str, text: str, old: Make) -> None:
    folder = old({name: text, "src/x/__init__.py": ""})
    assert name in merge.searched(read_tree(folder), findings(folder), "x_gpu")


def test_tests_at_the_root_are_run(old: Make) -> None:
    tree = read_tree(old({"test_root.py": "", "pkg/tests/test_a.py": ""}))
    assert merge.test_settings(tree, "testpaths = tests\n") == "testpaths = tests pkg/tests test_root.py\n"


def test_files_of_the_template_keep_their_line_ends(old: Make) -> None:
    folder = old({".gitattributes": "* text=auto eol=crlf\n"})
    assert merge.kept_from_crlf(folder, ["scripts/test"]) == ["/scripts/test eol=lf"]
    assert merge.kept_from_crlf(folder, ["scripts/test"]) == []


def test_a_pyproject_with_crlf_keeps_it(old: Make) -> None:
    folder = old({"pyproject.toml": "", "x/__init__.py": ""})
    (folder / "pyproject.toml").write_bytes(SETUPTOOLS.replace("\n", "\r\n").encode())
    assert merge.found_packages(folder, findings(folder), "x_gpu")
    text = (folder / "pyproject.toml").read_bytes()
    assert text.startswith(SETUPTOOLS.replace("\n", "\r\n").encode())
    assert text.count(b"\n") == text.count(b"\r\n")


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [(".venv", "a link", "tracks .venv"), ("pyproject.toml", "[broken", "cannot be read")],
)
def test_what_the_scripts_could_not_live_with_is_refused(path: str, text: str, said: str, old: Make) -> None:
    folder = old({"a.py": "", path: text})
    with pytest.raises(AdoptError, match=said):
        check(folder, "adopt-template")
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "text", ["--index-url https://bob:s3cret@host/simple", "git+https://s3cret@host/x.git", "https://h/?token=s3cret"]
)
def test_no_secret_is_printed(text: str) -> None:
    assert "s3cret" not in masked(text)


@pytest.mark.parametrize(
    ("text", "said"), [("A=1\nPYTHONPATH=src\n", "line 2"), ("free text\n", "line 1"), ("A=1\n", "")]
)
def test_an_env_that_every_script_refuses_is_named(text: str, said: str) -> None:
    assert refused_line(text).startswith(said)
    assert bool(refused_line(text)) == bool(said)
