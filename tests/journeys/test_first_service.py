"""My own scikit-learn model as my first service: docs/tutorials/first-service.md. The steps run in order."""

from __future__ import annotations

from tests.journeys.child import Child

TYPE = "service"
PAGE = "tutorials/first-service.md"


def test_the_new_repository_works(child: Child) -> None:
    child.follow("1. Create the repository")


def test_my_packages_are_installed_and_my_model_is_trained(child: Child) -> None:
    child.follow("2. Bring your model")


def test_tests_and_lint_accept_my_model(child: Child) -> None:
    child.follow("3. Write model.py")


def test_it_answers_and_names_a_missing_field(child: Child) -> None:
    child.follow("4. Send a request")


def test_the_load_test_starts_it_again_and_a_table_passes_the_tests(child: Child) -> None:
    child.stop()
    child.follow("5. Measure it")
    child.follow("6. Predict on a DataFrame")
