"""The children that a host lists: all repositories of an organisation or group that follow the template."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from fleetkit import clients
from fleetkit.answers import ANSWERS, answers_in
from fleetkit.children import Child, Fleet, FleetError, HostRule, same_place, shown
from fleetkit.fleet_file import child_of, name_for

LOCKED = (403, 409, 451)  # one repository that is not shown: blocked, without files, by order of a court


def of_github(rule: HostRule) -> Iterator[tuple[str, bytes]]:
    """Yield `owner/name` and the answers of each repository of an organisation or a person, but archived ones."""
    from github import GithubException, UnknownObjectException

    github = clients.github(rule)
    try:
        try:
            owner: Any = github.get_organization(rule.owner)
        except UnknownObjectException:
            owner = github.get_user(rule.owner)
        for repository in owner.get_repos():
            if repository.archived:
                continue
            try:
                yield repository.full_name, content_of(repository)
            except UnknownObjectException:
                continue  # no child of any template
            except (GithubException, AssertionError, AttributeError) as error:
                if isinstance(error, GithubException) and error.status not in LOCKED:
                    raise
                leave_out(repository.full_name, error)
    except (GithubException, OSError) as error:
        raise FleetError(f"github: the repositories of {rule.owner} cannot be listed: {error}") from error


def content_of(repository: Any) -> bytes:
    """Return the answers of a repository of GitHub; of a folder, a submodule or a huge file it tells no content."""
    return bytes(repository.get_contents(ANSWERS).decoded_content)


def leave_out(path: str, error: Exception) -> None:
    """Name a repository whose answers cannot be read: whether it is a child is not known, and it stops no other."""
    why = clients.reason(error) if str(error) else f"its {ANSWERS} is not a file"
    print(f"fleet: {shown(path)} is left out: {shown(why)}", file=sys.stderr)


def of_gitlab(rule: HostRule) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the answers of each project of a group and its subgroups; archived ones are left out."""
    import gitlab

    try:
        client = clients.gitlab(rule)
        group = client.groups.get(rule.owner, lazy=True)
        for project in group.projects.list(include_subgroups=True, archived=False, iterator=True):
            files = client.projects.get(project.id, lazy=True).files
            try:
                content = files.raw(ANSWERS, ref=project.default_branch or "HEAD")
            except gitlab.GitlabError as error:
                if error.response_code == 404:
                    continue  # no child of any template
                if error.response_code not in LOCKED:
                    raise
                leave_out(project.path_with_namespace, error)
                continue
            yield project.path_with_namespace, bytes(content)
    except (gitlab.GitlabError, OSError) as error:
        raise FleetError(f"gitlab: the projects of {rule.owner} cannot be listed: {error}") from error


def named(paths: list[str], owner: str, taken: set[str]) -> dict[str, str]:
    """Return a name for each repository: its own, and where two would have one, or another child has it, one more."""
    short = {path: name_for(path.removeprefix(f"{owner}/")) for path in paths}
    count = Counter(short.values())
    return {
        path: name if count[name] == 1 and name not in taken else f"{name}-{sha256(path.encode()).hexdigest()[:6]}"
        for path, name in short.items()
    }


LISTS = {"github": of_github, "gitlab": of_gitlab}


def follows(answers: bytes, template: str) -> bool:
    """Tell whether answers name the template. Broken answers that mention it count: the plan says what is wrong."""
    try:
        source = str(answers_in(answers, ("_src_path",))["_src_path"])
    except FleetError:
        return template.encode() in answers
    return same_place(source, template)


def listed(rule: HostRule, fleet: Fleet) -> list[Child]:
    """Return the children of one host that are not in the fleet already. Raises FleetError."""
    if rule.kind not in LISTS or not rule.template:
        raise FleetError(f"{rule.match}: to list {rule.owner}, the host needs kind github or gitlab, and template")
    try:
        paths = [path for path, answers in LISTS[rule.kind](rule) if follows(answers, rule.template)]
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise FleetError(f"{rule.kind}: {rule.owner} cannot be listed: {clients.reason(error)}") from error
    known = {fleet.place_of(child) for child in fleet.children}
    new = {path: Child("", f"{rule.match}{path}.git") for path in sorted(paths)}
    new = {path: child for path, child in new.items() if fleet.place_of(child) not in known}
    names = named(list(new), rule.owner, {child.name for child in fleet.children})
    return [child_of({"url": child.url, "name": names[path]}, path) for path, child in new.items()]


def with_listed(fleet: Fleet) -> Fleet:
    """Return the fleet with the children that its hosts list; one that stands in the file is taken from there."""
    for rule in fleet.hosts:
        if rule.owner:
            fleet = Fleet([*fleet.children, *listed(rule, fleet)], fleet.hosts)
    return fleet.checked()
