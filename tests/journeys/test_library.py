"""I try the library as its README shows, then test a GPU function of my own: docs/how-to/test-on-a-gpu.md."""

from __future__ import annotations

import pytest

from tests.journeys.child import Child

TYPE = "library"
PAGE = "how-to/test-on-a-gpu.md"
pytestmark = pytest.mark.xdist_group(PAGE)


def test_the_starting_tests_pass(child: Child) -> None:
    child.sh("scripts/test", expect="passed")


def test_the_first_snippet_of_the_readme_runs(child: Child) -> None:
    [search, *_] = child.snippets("python")
    child.path("snippet.py").write_text(search)
    child.sh(".venv/bin/python snippet.py && rm snippet.py", where="README.md", expect="a loop ends with break")


def test_my_function_passes_its_test_without_a_gpu(child: Child) -> None:
    child.follow("1. Write the function")


def test_my_gpu_test_is_found_and_skips_without_a_gpu(child: Child) -> None:
    assert "2 passed, 2 skipped" in child.follow("2. Compare with the GPU")


def test_lint_accepts_what_the_page_shows(child: Child) -> None:
    child.sh("scripts/lint", expect="all good")
