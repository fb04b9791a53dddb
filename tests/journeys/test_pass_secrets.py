"""My model needs a password: docs/how-to/pass-secrets.md."""

from __future__ import annotations

from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/pass-secrets.md"


def test_the_tests_need_no_password(child: Child) -> None:
    child.follow("1. Declare it")


def test_without_it_the_service_names_the_variable(child: Child) -> None:
    child.refused("scripts/run", "DATABASE_PASSWORD")


def test_with_it_the_service_starts_and_git_ignores_it(child: Child) -> None:
    child.follow("2. Set it on your laptop")
    assert "for-my-laptop" not in child.sh("git add -A && git diff --cached")


def test_the_overlay_passes_the_secret(child: Child) -> None:
    child.follow("3. Set it in the cluster")


def test_ci_reads_the_file_that_git_has(child: Child) -> None:
    child.follow("4. Set it in CI")
    child.refused("rm .env && env -u CI scripts/run", "DATABASE_PASSWORD")
    child.sh("CI=true scripts/shell printenv DATABASE_PASSWORD", expect="for-tests")
