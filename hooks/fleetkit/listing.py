"""The children that a host lists: all repositories of an organisation or group that follow the template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleetkit import clients
from fleetkit.answers import ANSWERS, answers_in
from fleetkit.children import Child, Fleet, FleetError, HostRule, child_of, same_place


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
                yield repository.full_name, repository.get_contents(ANSWERS).decoded_content
            except UnknownObjectException:
                continue  # no child of any template
    except (GithubException, OSError) as error:
        raise FleetError(f"github: the repositories of {rule.owner} cannot be listed: {error}") from error


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
                raise
            yield project.path_with_namespace, bytes(content)
    except (gitlab.GitlabError, OSError) as error:
        raise FleetError(f"gitlab: the projects of {rule.owner} cannot be listed: {error}") from error


LISTS = {"github": of_github, "gitlab": of_gitlab}


def follows(answers: bytes, template: str) -> bool:
    """Tell whether answers name the template. Broken answers that mention it count: the plan says what is wrong."""
    try:
        source = str(answers_in(answers, ("_src_path",))["_src_path"])
    except FleetError:
        return template.encode() in answers
    return same_place(source, template)


def plain(address: str) -> str:
    """Return an address without what makes no difference."""
    return address.rstrip("/").removesuffix(".git")


def listed(rule: HostRule) -> list[Child]:
    """Return the children of one host. Raises FleetError."""
    if rule.kind not in LISTS or not rule.template:
        raise FleetError(f"{rule.match}: to list {rule.owner}, the host needs kind github or gitlab, and template")
    try:
        paths = [path for path, answers in LISTS[rule.kind](rule) if follows(answers, rule.template)]
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise FleetError(f"{rule.kind}: {rule.owner} cannot be listed: {clients.reason(error)}") from error
    return [
        child_of(
            {"url": f"{rule.match}{path}.git", "name": path.removeprefix(f"{rule.owner}/").replace("/", "-")}, path
        )
        for path in sorted(paths)
    ]


def with_listed(fleet: Fleet) -> Fleet:
    """Return the fleet with the children that its hosts list; one that stands in the file is taken from there."""
    children = list(fleet.children)
    for rule in fleet.hosts:
        known = {plain(child.place) for child in children}
        if rule.owner:
            children += [child for child in listed(rule) if plain(child.place) not in known]
    names = [child.name for child in children]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FleetError(f"two children are called {twice[0]}: write one of them into the fleet file with another name")
    return Fleet(children, fleet.hosts)
