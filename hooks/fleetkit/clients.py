"""The clients of GitHub and GitLab, with patience where a host asks for it, and what their errors mean in words."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from gpu_repo_runtime.update.git_calls import UpdateError

from fleetkit.children import FleetError, HostRule

PAGE = 100  # entries a page: the most that both hosts give
TIMEOUT = 30  # seconds for one answer
TRIES = 4
LONGEST = 300  # characters of a host's words: a proxy answers with a page
LONGEST_WAIT = 900  # seconds that a host's limit of requests may hold one child back
PUBLIC = ("", "https://api.github.com")  # its limits ask for pauses; a server of one's own says when it is busy
BUSY = [429, 502, 503, 504]


def seconds_in(text: str | None) -> float | None:
    """Return how long a `Retry-After` asks to wait, in seconds or until a date; None where it says nothing.

    Raises FleetError where that is longer than a child may be held back.
    """
    told = (text or "").strip()
    try:
        wait = float(told) if told.isdecimal() else (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):  # a date without a zone, or none
        return None
    if wait > LONGEST_WAIT:
        raise FleetError(f"its host asks to wait for {wait:.0f} s: apply again later")
    return max(0.0, wait)


def github(rule: HostRule) -> Any:
    """Return the client of GitHub. It waits as long as `Retry-After` and the secondary limits say, and tries again."""
    from github import Auth, Github, GithubRetry

    class Patience(GithubRetry):
        def get_retry_after(self, response: Any) -> float | None:
            return seconds_in(response.headers.get("Retry-After"))

    patience = Patience(
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
    import requests

    def heard(response: Any, *_: object, **__: object) -> None:
        """Let the client read how long to wait (it knows whole seconds), and send the token to no other host."""
        wait = seconds_in(response.headers.pop("Retry-After", None))
        if wait is not None:
            response.headers["Retry-After"] = str(round(wait + 0.5))
        there = response.headers.get("Location", "") if response.is_redirect else ""
        asked, led = urlsplit(response.url), urlsplit(there)
        if led.netloc and (led.scheme, led.netloc) != (asked.scheme, asked.netloc):
            raise FleetError(f"its host leads to {led.scheme}://{led.netloc}: correct `api` in fleet.yml")

    session = requests.Session()
    session.hooks["response"].append(heard)
    return client.Gitlab(
        rule.api or None, private_token=rule.token(), timeout=TIMEOUT, per_page=PAGE, session=session,
        retry_transient_errors=True,
    )  # fmt: skip


def reason(error: Exception) -> str:
    """Return in one line why a host could not be used."""
    if isinstance(error, (FleetError, UpdateError)):
        return str(error)
    if isinstance(error, (TypeError, AttributeError, KeyError, ValueError, AssertionError)):
        return "its host answered with something else than its API does: is `api` of the host right in fleet.yml?"
    said = " ".join(str(error).split())
    return f"its host says: {said if len(said) <= LONGEST else f'{said[:LONGEST]} ...'}"
