"""The operations, parameters and fields of GitLab's REST API (docs.gitlab.com) that the fleet uses."""

import re
from dataclasses import dataclass
from typing import Any

PAGING = ("page", "per_page", "pagination", "order_by", "sort")
EDITED = ("description", "assignee_id", "assignee_ids", "reviewer_ids", "labels", "remove_source_branch", "squash")
PROJECT = "/api/v4/projects/[^/]+"
REQUESTS = f"{PROJECT}/merge_requests"


@dataclass(frozen=True)
class Rules:
    """What one operation takes: parameters of its address, fields that its body must have, fields that it may have."""

    query: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


OPERATIONS = {
    ("GET", "/api/v4/groups/[^/]+/projects"): Rules((*PAGING, "archived", "include_subgroups", "simple")),
    ("GET", f"{PROJECT}/repository/files/[^/]+/raw"): Rules(query=("ref", "lfs")),
    ("GET", f"{PROJECT}/repository/commits/[0-9a-f]+/statuses"): Rules((*PAGING, "ref", "stage", "name", "all")),
    ("GET", REQUESTS): Rules((*PAGING, "state", "source_branch", "target_branch", "author_username", "labels")),
    ("GET", rf"{REQUESTS}/\d+"): Rules(query=("include_rebase_in_progress",)),
    ("POST", REQUESTS): Rules((), ("source_branch", "target_branch", "title"), (*EDITED, "target_project_id")),
    ("PUT", rf"{REQUESTS}/\d+"): Rules((), (), ("title", "target_branch", "state_event", *EDITED)),
    ("POST", rf"{REQUESTS}/\d+/notes"): Rules((), ("body",)),
}


def faults(method: str, path: str, query: dict[str, list[str]], body: Any) -> list[str]:
    """Return what is wrong with a request to GitLab: an operation, a parameter or a field that it does not know."""
    rules = next(
        (rules for (verb, place), rules in OPERATIONS.items() if verb == method and re.fullmatch(place, path)), None
    )
    if rules is None:
        return [f"{method} {path} is not among the operations of gitlab_rules.py"]
    given = body or {}
    told = [f"parameter {key} is unknown" for key in query if key not in rules.query]
    told += [f"field {key} is required" for key in rules.required if key not in given]
    told += [f"field {key} is unknown" for key in given if key not in (*rules.required, *rules.optional)]
    return [f"{method} {path}: {fault}" for fault in told]
