"""My own function for CPU and GPU as my first library: docs/tutorials/first-library.md. The steps run in order."""

from __future__ import annotations

from tests.journeys.child import Child

TYPE = "library"
PAGE = "tutorials/first-library.md"


def test_my_function_is_exported(child: Child) -> None:
    child.follow("2. Write your function")
    child.sh('.venv/bin/python -c "from kernel_distance import standardise"')


def test_tests_and_lint_accept_my_function(child: Child) -> None:
    child.follow("3. Test it")


def test_the_wheel_works_elsewhere(child: Child) -> None:
    child.sh("git add -A && git -c user.name=Me -c user.email=me@example.com commit -qm 'Add standardise'")
    child.follow("4. Build and install the wheel")


def test_all_checks_pass_without_the_example(child: Child) -> None:
    child.sh("git config user.name Me && git config user.email me@example.com")
    child.follow("5. Remove the example")
