"""The operations, parameters and fields of GitLab's REST API that the fleet may use, in the form of apis/github.json.

GitLab publishes no package with its description. Checked on 2026-11-28 against the pages of docs.gitlab.com/api (merge
requests, commits, repository files, groups, notes) and the attributes in python-gitlab 8.6.
"""

from typing import Any

PAGES = "page per_page order_by sort"
CHANGE = (
    "allow_collaboration assignee_id assignee_ids description labels milestone_id remove_source_branch reviewer_ids"
)
PROJECT = "/api/v4/projects/{id}"
MERGE_REQUESTS = f"{PROJECT}/merge_requests"


def rules(query: str = "", required: str = "", optional: str = "", codes: str = "200") -> dict[str, Any]:
    """Return what one operation takes, and the codes that it answers with."""
    body = {"type": "object", "properties": {name: {} for name in f"{required} {optional}".split()}}
    return {
        "query": {name: {} for name in query.split()},
        "body": body | {"required": required.split()},
        "body_required": bool(required),
        "answers": dict.fromkeys(codes.split()),
    }


OPERATIONS = {
    "GET /api/v4/groups/{id}/projects": rules(f"{PAGES} archived include_subgroups simple"),
    f"GET {PROJECT}/repository/files/{{path}}/raw": rules("ref lfs"),
    f"GET {PROJECT}/repository/commits/{{sha}}/statuses": rules(f"{PAGES} ref stage name all pipeline_id"),
    f"GET {MERGE_REQUESTS}": rules(f"{PAGES} state source_branch target_branch author_username labels scope"),
    f"GET {MERGE_REQUESTS}/{{iid}}": rules("render_html include_diverged_commits_count include_rebase_in_progress"),
    f"POST {MERGE_REQUESTS}": rules(
        "", "source_branch target_branch title", f"{CHANGE} squash target_project_id", "201 409"
    ),
    f"PUT {MERGE_REQUESTS}/{{iid}}": rules(
        "", "", f"title target_branch state_event squash discussion_locked {CHANGE}"
    ),
    f"POST {MERGE_REQUESTS}/{{iid}}/notes": rules("", "body", "internal created_at", "201"),
}
