"""I try the library as its README shows, then test a GPU function of my own: docs/how-to/test-on-a-gpu.md."""

from __future__ import annotations

from tests.journeys.child import Child

TYPE = "library"
PAGE = "how-to/test-on-a-gpu.md"


def test_the_first_snippet_of_the_readme_runs(child: Child) -> None:
    [search, *_] = child.snippets("python")
    child.path("snippet.py").write_text(search)
    child.sh(".venv/bin/python snippet.py && rm snippet.py", where="README.md", expect="a loop ends with break")


def test_my_function_passes_its_test_without_a_gpu(child: Child) -> None:
    child.follow("1. Write the function")


def test_my_gpu_test_is_found_and_skips_without_a_gpu(child: Child) -> None:
    assert "2 passed, 3 skipped" in child.follow("2. Compare with the GPU")


def test_lint_accepts_what_the_page_shows(child: Child) -> None:
    child.sh("scripts/lint", expect="all good")


def test_the_wheel_of_the_runtime_is_in_git_whatever_my_own_ignore_file_says(child: Child) -> None:
    """GitHub's Python list has `wheels/`."""
    child.path("../python.gitignore").write_text("wheels/\n*.whl\n")
    everywhere = 'git -c core.excludesFile="$PWD/../python.gitignore"'
    child.sh(f"! {everywhere} check-ignore --no-index wheels/* scripts/* src/*/*.py")


def test_a_requirement_that_i_did_not_lock_fails_lint(child: Child) -> None:
    child.sh("cp pyproject.toml ../pyproject.toml && sed -i 's/numpy>=2/numpy>=99/' pyproject.toml")
    child.refused("scripts/lint", "pyproject.toml requires numpy>=99")
    child.sh("mv ../pyproject.toml pyproject.toml")


def test_a_package_without_a_wheel_is_refused_when_i_lock_it(child: Child) -> None:
    child.sh('cp pyproject.toml ../pyproject.toml && sed -i \'s/"numpy>=2"/"numpy>=2", "langdetect"/\' pyproject.toml')
    child.refused("scripts/lock", "langdetect have no usable wheels")
    child.sh("mv ../pyproject.toml pyproject.toml && git diff --exit-code requirements.lock")


def test_data_that_gitignore_matches_is_missed_before_it_is_published(child: Child) -> None:
    child.sh("mkdir src/kernel_distance/data && touch src/kernel_distance/data/table.csv && echo '*.csv' >>.gitignore")
    child.sh("git add --all && git add --force src/kernel_distance/data/table.csv")
    child.refused("scripts/package", "src/kernel_distance/data/table.csv, which is in git")
    child.sh("""printf '\\n[tool.hatch.build]\\nartifacts = ["*.csv"]\\n' >>pyproject.toml && scripts/package""")


def test_a_wheel_that_declares_too_little_is_not_packaged(child: Child) -> None:
    child.sh("cp pyproject.toml ../pyproject.toml && sed -i '/numpy>=2/d' pyproject.toml")
    child.refused("scripts/package", "cannot be imported with only the packages that pyproject.toml declares")
    child.sh("! test -e build/proof/package && mv ../pyproject.toml pyproject.toml")


def test_a_copy_of_the_folder_does_not_run_the_code_of_the_first(child: Child) -> None:
    child.sh("cp -r . ../copied && cd ../copied && scripts/setup", expect="making .venv")
    child.sh("cd ../copied && mv ../copied ../moved && cd ../moved && ! scripts/test", expect="run scripts/setup")


def test_my_command_is_installed_and_an_extra_that_is_not_locked_is_named(child: Child) -> None:
    command = '[project.scripts]\\ndistance = "kernel_distance.__main__:main"\\n'
    child.sh(f"printf '{command}' >>pyproject.toml")
    child.sh("""sed -i '/^gpu = /a viz = ["packaging"]' pyproject.toml""")
    child.sh("scripts/lock", expect="no lock contains extra viz")
    child.sh("scripts/setup && .venv/bin/distance --help", expect="usage: ")


def test_my_wheel_that_was_built_again_replaces_the_first(child: Child) -> None:
    """It has the same version; wheels/ of another repository takes it, here of this one."""
    project, build = '[project]\nname = "own.lib"\nversion = "1.0"', '[build-system]\nrequires = ["hatchling"]'
    child.path("../own/own_lib").mkdir(parents=True)
    child.path("../own/pyproject.toml").write_text(f'{project}\n{build}\nbuild-backend = "hatchling.build"\n')
    child.sh("""sed -i 's/"numpy>=2"/&, "own-lib"/' pyproject.toml""")
    for text in ("first", "second"):
        child.path("../own/own_lib/__init__.py").write_text(f"text = {text!r}\n")
        child.sh(".venv/bin/uv build -q --wheel -o wheels ../own && scripts/lock && scripts/setup")
        child.sh(".venv/bin/python -c 'import own_lib; print(own_lib.text)'", expect=text)


def test_the_version_may_come_from_the_tag(child: Child) -> None:
    child.sh("""sed -i 's/^version = .*/dynamic = ["version"]/; s/"hatchling>=1.27"/&, "hatch-vcs"/' pyproject.toml""")
    child.sh("""printf '\\n[tool.hatch.version]\\nsource = "vcs"\\n' >>pyproject.toml && git add --all""")
    child.sh("git -c user.name=Me -c user.email=me@example.com commit -qm Version && git tag v1.2.3")
    child.sh("scripts/package", expect="made kernel_distance-1.2.3")
