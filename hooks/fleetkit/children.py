"""The children of the fleet: listed in fleet.yml, found in a folder, or discovered on a host by their answers."""

from pathlib import Path

import yaml
from gpu_repo_runtime.update.git import UpdateError, clean

from fleetkit.fleet_file import Child, FleetFile, HostRule
from fleetkit.push import same_place


def host_of(fleet: FleetFile, url: str) -> HostRule | None:
    """Return the host whose address a URL begins with."""
    return next((rule for rule in fleet.hosts if url.startswith(rule.address)), None)


def discovered(rule: HostRule, template: str) -> list[str]:
    """Return the addresses of the repositories of a host whose answers name the template. Raises UpdateError."""
    from fleetkit import github_host, gitlab_host

    found = []
    try:
        for path, text in {"github": github_host, "gitlab": gitlab_host}[rule.kind].discover(rule):
            try:
                source = str((yaml.safe_load(text) or {})["_src_path"])
            except (yaml.YAMLError, RecursionError, KeyError, TypeError, AttributeError):
                continue
            if same_place(source, template):
                found.append(f"{rule.address}{'' if rule.address.endswith((':', '/')) else '/'}{path}.git")
    except UpdateError:
        raise
    except Exception as error:  # each client has its own, and requests has more
        raise UpdateError(f"{rule.address} cannot be listed: {clean(str(error))[:200]}") from error
    return found


def find_children(fleet: FleetFile) -> list[Child]:
    """Return every child once, canaries first. Raises UpdateError."""
    listed = {one.url: one.canary for one in fleet.children}
    urls = list(listed)
    if fleet.folder:
        urls += sorted(str(place.parent) for place in Path(fleet.folder).glob("*/HEAD"))
    for rule in fleet.hosts:
        urls += discovered(rule, fleet.template) if rule.discover else []
    found = [Child(url=url, canary=listed.get(url, False), host=host_of(fleet, url)) for url in dict.fromkeys(urls)]
    if not found:
        raise UpdateError("the fleet has no child: list children, a folder, or a host with discover")
    return sorted(found, key=lambda child: (not child.canary, child.name))
