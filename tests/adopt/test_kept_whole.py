"""The wheel, the tests and the line ends of an old repository stay as they were, and its secrets stay its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from adoption import merge, plan, repository
from adoption.adopting import refused_line
from adoption.baseline import NAME, RUFF, write_baseline
from adoption.repository import AdoptError, check
from adoption.tree import Tree, read_tree, restore, without_strangers
from gpu_repo_runtime.update.outcome import merge_lines

from tests.adopt.conftest import Make
from tests.adopt.test_detect import findings
from tests.conftest import git

SETUPTOOLS = "[build-system]\nbuild-backend = 'setuptools.build_meta'\n[project]\nname = 'other'\n"


@pytest.mark.slow
def test_no_pyproject_is_written_that_would_stand_for_the_metadata_of_setup_py(old: Make) -> None:
    folder = old({"setup.py": "from setuptools import setup\nsetup(name='x')\n", "x/__init__.py": ""})
    assert merge.found_packages(folder, findings(folder), "x_gpu") == ""
    assert not (folder / "pyproject.toml").exists()
    assert "add packages=" in merge.searched(read_tree(folder), findings(folder), "x_gpu")


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("find", "said"),
    [
        ("exclude = ['tests*']\nnamespaces = false", ""),
        ("include = ['x*']", ""),
        ("exclude = ['tests*']", "let it exclude src*"),
        ("exclude = ['tests*', 'src*']", ""),
        ("where = ['src']", "let it exclude x_gpu*"),
        ("where = ['src']\nexclude = ['x_gpu*']", ""),
        ("where = ['src']\ninclude = ['x']", ""),
    ],
)
def test_only_a_search_that_finds_the_template_is_named(find: str, said: str, old: Make) -> None:
    folder = old({"pyproject.toml": f"{SETUPTOOLS}[tool.setuptools.packages.find]\n{find}\n", "x/__init__.py": ""})
    told = merge.searched(read_tree(folder), findings(folder), "x_gpu")
    assert (said in told) if said else not told, told


def test_tests_at_the_root_are_run(old: Make) -> None:
    tree = read_tree(old({"test_root.py": "", "pkg/tests/test_a.py": ""}))
    assert merge.test_settings(tree, "testpaths = tests\n") == "testpaths = tests pkg/tests test_root.py\n"


@pytest.mark.slow
def test_a_root_that_is_a_package_is_not_imported_for_each_test(old: Make) -> None:
    settings = "[pytest]\ntestpaths = tests\naddopts = --strict-config\n"
    broken = {"__init__.py": "from .nowhere import *\n", "tests/test_a.py": "def test_it():\n    pass\n"}
    folder = old(broken)
    (folder / "pytest.ini").write_text(merge.test_settings(read_tree(folder), settings))
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stdout
    (folder / "conftest.py").write_text("")
    git(folder, "add", "conftest.py")
    assert merge.test_settings(read_tree(folder), settings) == settings, "a conftest.py at the root would not be read"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_the_template_adds_at_its_top_does_not_meet_the_lines_above_it(end: str) -> None:
    base, theirs = "a\nb\nc\n", "# new\na\nb\nc\n"
    ours = merge.united(f"mine{end}yours{end}", base)
    assert merge_lines(base.encode(), ours.encode(), theirs.encode()) == (
        merge.united(f"mine{end}yours{end}", theirs).encode(),
        False,
    )


def test_files_of_the_template_keep_their_line_ends(old: Make) -> None:
    folder = old({".gitattributes": "* text=auto eol=crlf\n"})
    assert merge.kept_from_crlf(folder, ["scripts/test"]) == ["/scripts/test eol=lf"]
    assert merge.kept_from_crlf(folder, ["scripts/test"]) == []


@pytest.mark.slow
def test_files_of_the_template_keep_their_line_ends_where_git_turns_all(old: Make) -> None:
    """With core.autocrlf a script that begins with a line of CRLF names a program that is not there."""
    folder = old({"tests/test_a.py": "", "b.txt": "one\n"})
    git(folder, "config", "core.autocrlf", "true")
    assert repository.turns_line_ends(folder)
    new = ["scripts/test", "tests/gpu/test_smoke.py", "Dockerfile", "wheels/a-1.whl", "wheels/requirements.in"]
    for name in new:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"PK\0\r\n" if name.endswith(".whl") else b"line\n")
    merge.kept_from_crlf(folder, new, ["tests/test_a.py", "b.txt"], automatic=True)
    assert (folder / ".gitattributes").read_text().splitlines()[2:] == [
        f"/{name} text eol=lf"
        for name in ("scripts/**", "tests/gpu/test_smoke.py", "Dockerfile", "wheels/requirements.in")
    ]
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=Files")
    for name in (*new, "b.txt"):
        (folder / name).unlink()
    git(folder, "checkout", "--", ".")
    turned = {name for name in (*new, "b.txt") if (folder / name).read_bytes().count(b"\r\n")}
    assert turned == {"b.txt", "wheels/a-1.whl"}, "theirs as git was told, the template's as they are"


def test_a_readme_in_another_form_is_not_hidden_by_the_templates(old: Make) -> None:
    tree = read_tree(old({"README.rst": "Nets\n====\n"}))
    assert "README.rst" in plan.kept_paths(tree, ["README.md"], set())["README.md"]
    assert "README.md" not in plan.kept_paths(tree, ["README.md"], {"README.md"})


def test_a_folder_that_differs_in_capitals_alone_is_named(old: Make) -> None:
    tree = read_tree(old({"Scripts/run.py": "", "src/a.py": "", "data/x": ""}))
    assert plan.twice_named(tree, ["scripts/test", "src/x/model.py", "Dockerfile"]) == ["Scripts"]


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


@pytest.mark.parametrize("theirs", [b"a\r\nb\r\n", b"a\r\nb"])
def test_a_file_of_crlf_stays_one(theirs: bytes, old: Make) -> None:
    folder = old({"a.py": ""})
    (folder / ".gitignore").write_bytes(theirs)
    text = merge.united(merge.read(folder / ".gitignore"), "a\nwheels/\n")
    merge.write(folder / ".gitignore", text)
    (folder / "b").write_text("x")
    merge.unignored(folder, ["b"])
    done = (folder / ".gitignore").read_bytes()
    assert done.startswith(theirs), done
    assert done.count(b"\r\n") == done.count(b"\n"), done
    assert b"wheels/\r\n" in done
    assert b"!/b\r\n" in done


def test_a_file_of_both_line_ends_stays_as_it_is(old: Make) -> None:
    assert merge.united("a\r\nb\n", "c\n") == f"a\r\nb\n\n{merge.HEAD}\nc\n"


@pytest.mark.parametrize("name", ["$(touch x).py", "a b.py", 'q"`.py', "week 1/run.py", "-x.py", "scripts/a b.sh"])
def test_a_name_that_a_shell_would_read_otherwise_is_in_no_script_and_named(name: str, old: Make) -> None:
    folder = old({"a.py": "", name: "#!/bin/sh\n"})
    tree, found = read_tree(folder), findings(folder)
    assert found.layout.code == ["a.py"]
    assert plan.adopted(tree, found, {})["kept"] == []
    [said] = found.open
    assert said.startswith(name if "scripts" in name else name.split("/")[0])


@pytest.mark.slow
def test_a_name_that_is_not_utf8_stops_nothing_and_is_named(old: Make) -> None:
    folder = old({"a.py": "import torch\n", "ruff.toml": ""})
    for name in (b"caf\xe9.py", b"caf\xe9.txt"):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text("import os\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=Odd")
    found = findings(folder)
    assert found.layout.code == ["a.py"]
    [said] = found.open
    assert said.startswith("caf\\xe9.py: the name has letters")
    assert "1 not read" in write_baseline(folder, "ruff.toml", [])
    done = subprocess.run([RUFF, "check", "--no-cache", "--config", NAME, "."], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("text", "said"), [("A=1\nPYTHONPATH=src\n", "line 2"), ("free text\n", "line 1"), ("A=1\n", "")]
)
def test_an_env_that_every_script_refuses_is_named(text: str, said: str) -> None:
    assert refused_line(text).startswith(said)
    assert bool(refused_line(text)) == bool(said)


def test_a_link_is_neither_followed_out_of_the_repository_nor_written_through(old: Make, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs\n")
    folder = old({"a.py": "import os\n", "ruff.toml": ""})
    (folder / "b.py").symlink_to("a.py")
    (folder / ".gitattributes").symlink_to(outside)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=Links")
    tree = read_tree(folder)
    strangers = without_strangers(tree)
    assert strangers == {".gitattributes": str(outside)}
    assert not (folder / ".gitattributes").exists()
    with pytest.raises(AdoptError, match=r"\.gitattributes is a link"):
        merge.write(folder / ".gitattributes", "ours\n")
    write_baseline(folder, "ruff.toml", [])
    assert "b.py =" in (folder / NAME).read_text().replace('"', "").replace("'", ""), (
        "ruff knows a link by its own name"
    )
    restore(tree, strangers)
    assert (outside.read_text(), git(folder, "status", "--porcelain").strip()) == ("theirs\n", f"?? {NAME}")


def test_a_file_that_lines_have_to_go_into_is_no_link(old: Make, tmp_path: Path) -> None:
    folder = old({"a.py": "", "ignored": "data\n"})
    (folder / ".gitignore").symlink_to("ignored")
    git(folder, "add", "--all")
    (tmp_path / "render").mkdir()
    (tmp_path / "render" / ".gitignore").write_text("build\n")
    with pytest.raises(AdoptError, match=r"\.gitignore is a link"):
        plan.entries(read_tree(folder), tmp_path / "render", {}, set())


@pytest.mark.parametrize("module", ["src", "scripts/test", "Tests"])
def test_a_submodule_where_the_template_has_files_is_refused(module: str, tmp_path: Path) -> None:
    tree = Tree(tmp_path, ["a.py"], [module])
    with pytest.raises(AdoptError, match=f"{module} is a submodule"):
        plan.kept_paths(tree, ["src/x/model.py", "scripts/test", "tests/test_a.py"], set())
    assert plan.kept_paths(Tree(tmp_path, ["a.py"], ["third_party/x"]), ["scripts/test"], set())


@pytest.mark.parametrize("attributes", ["* text\n", "* eol=crlf\n"])
def test_what_is_binary_stays_whole_where_every_file_is_text(attributes: str, old: Make) -> None:
    folder = old({".gitattributes": attributes})
    (folder / "wheels").mkdir()
    (folder / "wheels" / "a-1.whl").write_bytes(b"\0a\r\nb\n")
    merge.kept_binary(folder, ["wheels/a-1.whl"])
    git(folder, "add", "--all")
    assert git(folder, "cat-file", "-s", ":wheels/a-1.whl").strip() == "6"


def test_who_commits_must_be_known(old: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = old({"a.py": ""})
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git(folder, "config", "user.useConfigOnly", "true")
    git(folder, "config", "--unset", "user.email")
    with pytest.raises(AdoptError, match="does not know who commits"):
        check(folder, "adopt-template")
