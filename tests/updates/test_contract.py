"""The stand-in for a code host refuses what the host's published description does not allow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.updates.contract import answer_to, operation, request_faults

PULLS = "/repos/acme/one/pulls"
GOOD = {"title": "Update", "head": "template/v2.0.0", "base": "main", "body": "text", "draft": False}


UNKNOWN_TO_GITHUB = [
    ("GET", "/repos/acme/one/pull", {}, None, "not among the operations"),
    ("DELETE", PULLS, {}, None, "not among the operations"),
    ("GET", PULLS, {"status": ["all"]}, None, "parameter status is unknown"),
    ("GET", PULLS, {"state": ["opened"]}, None, "'opened' is not one of"),
    ("GET", PULLS, {"per_page": ["many"]}, None, "'many' is not of type 'integer'"),
    ("POST", PULLS, {}, {"title": "Update", "head": "a"}, "'base' is a required property"),
    ("POST", PULLS, {}, GOOD | {"draft": "yes"}, "'yes' is not of type 'boolean'"),
    ("POST", PULLS, {}, GOOD | {"labels": ["template"]}, "field labels is unknown"),
    ("PUT", f"{PULLS}/1/merge", {}, {"merge_method": "MERGE"}, "'MERGE' is not one of"),
]


def test_a_request_that_the_host_does_not_know_is_told() -> None:
    for method, path, query, body, words in UNKNOWN_TO_GITHUB:
        faults = request_faults("github", method, path, query, body)
        assert any(words in fault for fault in faults), (method, path, words, faults)


REQUESTS = "/api/v4/projects/7/merge_requests"
ASKED = {"source_branch": "a", "target_branch": "main", "title": "Update"}


UNKNOWN_TO_GITLAB = [
    ("DELETE", REQUESTS, {}, None, "not among the operations"),
    ("GET", REQUESTS, {"head": ["a"]}, None, "parameter head is unknown"),
    ("POST", REQUESTS, {}, {"title": "Update"}, "field target_branch is required"),
    ("POST", REQUESTS, {}, ASKED | {"draft": True}, "field draft is unknown"),
    ("PUT", f"{REQUESTS}/1/merge", {}, {"auto_merge": True}, "field sha is required"),
    ("PUT", f"{REQUESTS}/1", {}, {"state": "closed"}, "field state is unknown"),
]


def test_a_request_that_gitlab_does_not_know_is_told() -> None:
    for method, path, query, body, words in UNKNOWN_TO_GITLAB:
        faults = request_faults("gitlab", method, path, query, body)
        assert any(words in fault for fault in faults), (method, path, words, faults)


def test_what_gitlab_knows_is_no_fault() -> None:
    assert request_faults("gitlab", "GET", REQUESTS, {"state": ["opened"], "per_page": ["100"]}, None) == []
    assert request_faults("gitlab", "POST", REQUESTS, {}, ASKED | {"reviewer_ids": [7]}) == []


def test_what_the_host_knows_is_no_fault() -> None:
    assert request_faults("github", "GET", PULLS, {"state": ["all"], "per_page": ["100"]}, None) == []
    assert request_faults("github", "POST", PULLS, {}, GOOD) == []


@pytest.mark.parametrize(
    ("code", "answer", "words"),
    [
        (201, {"number": "1"}, "$.number: '1' is not of type 'integer'"),
        (201, {"base": "main"}, "$.base: 'main' is not of type 'object'"),
        (204, {}, "it never answers with 204"),
    ],
)
def test_an_answer_that_the_host_never_gives_is_told(code: int, answer: Any, words: str) -> None:
    _, faults = answer_to("github", "POST", PULLS, code, answer)
    assert any(words in fault for fault in faults), faults


def test_an_answer_has_all_that_the_host_never_leaves_out() -> None:
    whole, faults = answer_to("github", "POST", PULLS, 201, {"number": 7})
    assert faults == []
    _, rules = operation("github", "POST", PULLS) or ("", {})
    assert set(rules["answers"]["201"]["required"]) <= set(whole)
    assert whole["number"] == 7
