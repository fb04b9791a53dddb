"""What python-gitlab knows of GitLab's interface: the operations, parameters and fields that a request may have.

GitLab's own description is on no package index, and its licence (CC BY-SA 4.0) would bind a cut of it: so none is here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gitlab.v4 import objects

PAGING = {"page", "per_page", "pagination", "order_by", "sort"}
PROJECT = "/api/v4/projects/[^/]+"
REQUESTS = f"{PROJECT}/merge_requests"


@dataclass(frozen=True)
class Rules:
    """What one operation takes: parameters of its address, fields that its body must have, fields that it may have."""

    query: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def listing(manager: Any) -> Rules:
    """Return what the list of a manager can be filtered by."""
    return Rules(query=(*PAGING, *manager._list_filters))


def writing(known: Any) -> Rules:
    """Return what may be created or changed."""
    return Rules(required=known.required, optional=known.optional)


OPERATIONS = {
    ("GET", "/api/v4/groups/[^/]+/projects"): listing(objects.GroupProjectManager),
    ("GET", "/api/v4/users"): listing(objects.UserManager),
    ("GET", PROJECT): Rules(),
    ("GET", f"{PROJECT}/repository/files/[^/]+/raw"): Rules(query=("ref", "lfs")),
    ("GET", f"{PROJECT}/repository/commits/[0-9a-f]+/statuses"): listing(objects.ProjectCommitStatusManager),
    ("GET", REQUESTS): listing(objects.ProjectMergeRequestManager),
    ("GET", rf"{REQUESTS}/\d+"): Rules(query=("include_rebase_in_progress",)),
    ("POST", REQUESTS): writing(objects.ProjectMergeRequestManager._create_attrs),
    ("PUT", rf"{REQUESTS}/\d+"): writing(objects.ProjectMergeRequestManager._update_attrs),
    ("GET", rf"{REQUESTS}/\d+/notes"): listing(objects.ProjectMergeRequestNoteManager),
    ("POST", rf"{REQUESTS}/\d+/notes"): writing(objects.ProjectMergeRequestNoteManager._create_attrs),
    # python-gitlab knows neither: auto_merge came with GitLab 17.11, sha is a field of the documentation.
    ("PUT", rf"{REQUESTS}/\d+/merge"): Rules((), ("sha",), ("auto_merge", "merge_when_pipeline_succeeds")),
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
