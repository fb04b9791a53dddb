"""I serve two models and stream answers: docs/how-to/stream-and-serve-several-models.md. The steps run in order."""

from __future__ import annotations

import json

from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/stream-and-serve-several-models.md"


def test_the_starting_tests_pass_with_two_models(child: Child) -> None:
    child.follow("1. Serve two models")


def test_prices_are_streamed_and_the_tariff_is_chosen(child: Child) -> None:
    child.follow("2. Stream prices")


def test_each_line_of_the_stream_is_json(child: Child) -> None:
    lines = child.sh("curl -sSf 'localhost:8000/prices?country=DE' -H 'content-type: application/json' -d '[1, 2]'")
    assert [json.loads(line) for line in lines.splitlines()] == [{"price": 5.2}, {"price": 6.4}]


def test_lint_accepts_what_the_page_shows(child: Child) -> None:
    child.sh("scripts/lint", expect="all good")
