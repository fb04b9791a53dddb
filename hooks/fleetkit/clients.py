"""The clients of GitHub and GitLab, with patience where a host asks for it, and what their errors mean in words."""

from __future__ import annotations

from typing import Any

from gpu_repo_runtime.update.git_calls import UpdateError

from fleetkit.children import FleetError, HostRule

PAGE = 100  # entries a page: the most that both hosts give
TIMEOUT = 30  # seconds for one answer
TRIES = 4
LONGEST_WAIT = 900  # seconds that a host's limit of requests may hold one child back
PUBLIC = ("", "https://api.github.com")  # its limits ask for pauses; a server of one's own says when it is busy
BUSY = [429, 502, 503, 504]


def github(rule: HostRule) -> Any:
    """Return the client of GitHub. It waits as long as `Retry-After` and the secondary limits say, and tries again."""
    from github import Auth, Github, GithubRetry

    patience = GithubRetry(
        total=TRIES, connect=1, backoff_factor=0.5, status_forcelist=list(BUSY), max_rate_limit_wait=LONGEST_WAIT,
        allowed_methods={"GET", "POST", "PUT", "PATCH", "DELETE"},
    )  # fmt: skip
    options: dict[str, Any] = {"base_url": rule.api} if rule.api else {}
    if rule.api.rstrip("/") not in PUBLIC:
        options |= {"seconds_between_requests": None, "seconds_between_writes": None}
    return Github(auth=Auth.Token(rule.token()), retry=patience, timeout=TIMEOUT, per_page=PAGE, **options)


def gitlab(rule: HostRule) -> Any:
    """Return the client of GitLab. It waits as long as `Retry-After` says, and tries again what a busy host refused."""
    import gitlab as client

    return client.Gitlab(
        rule.api or None, private_token=rule.token(), timeout=TIMEOUT, per_page=PAGE, retry_transient_errors=True
    )


def reason(error: Exception) -> str:
    """Return in one line why a host could not be used."""
    if isinstance(error, (FleetError, UpdateError)):
        return str(error)
    if isinstance(error, (TypeError, AttributeError, KeyError, ValueError, AssertionError)):
        return "its host answered with something else than its API does: is `api` of the host right in fleet.yml?"
    return f"its host says: {' '.join(str(error).split())}"
