"""Which repositories the fleet has: fleet.yml, or what is found in a folder."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from gpu_repo_runtime.update.git_calls import without_secrets

WAVES = ("canary", "early", "rest")
CREDENTIALS = re.compile(r"(https?://)[^/@\s]+@|([a-z+]+://[^/@:\s]*:)[^/@\s]*@")  # a password, a token as the name
ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?([^/:]*)")
PROTOCOLS = ("file", "git", "http", "https", "ssh")
# What a terminal obeys, what turns the direction of the text around it, and what no file may hold.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
KEYS = {"name", "url", "wave", "owner", "paused", "automerge", "answers"}


class FleetError(Exception):
    """The fleet tool cannot go on; the message says why and what to do."""


def shown(value: Any) -> Any:
    """Return what may be written down or printed: no credentials in addresses, and nothing that is not seen.

    One letter of a child that no terminal, XML or UTF-8 takes would cost the report of all.
    """
    if isinstance(value, str):
        text = UNSEEN.sub("\ufffd", value.replace("\r\n", "\n"))
        return without_secrets(CREDENTIALS.sub(lambda found: f"{found[1] or found[2]}***@", text))
    if isinstance(value, dict):
        return {shown(key): shown(entry) for key, entry in value.items()}
    return [shown(entry) for entry in value] if isinstance(value, list) else value


def host_in(address: str) -> str:
    """Return the host of an address, https or ssh; nothing for a place on this machine."""
    if address.startswith(("/", ".", "file:")):
        return ""
    found = ADDRESS.match(address)
    return found[1].lower() if found and ":" in address else ""


def same_place(one: str, other: str) -> bool:
    """Tell whether two addresses name one repository: by ssh or https, with or without .git, a user or a slash."""

    def parts(address: str) -> tuple[str, str]:
        found, plain = host_in(address), address.rstrip("/").removesuffix(".git")
        if not found:
            return "", plain.removeprefix("file://")
        path = re.sub(r"^(?:[a-z+]+://)?(?:[^/@]*@)?[^/:]*(?::[0-9]+(?=/))?[/:]*", "", plain)
        return found, path

    return parts(one) == parts(other)


def check_address(address: str) -> None:
    """Raise FleetError for an address that git would take for an option, or for a program to run."""
    scheme, found, _ = address.partition("://")
    known = scheme in PROTOCOLS if found else "::" not in address
    if address.startswith("-") or not known or not address.isprintable():
        raise FleetError(f"{address!r} is not an address of a repository: it needs https, ssh, git, file or a path")


@dataclass(frozen=True)
class Child:
    """One repository of the fleet."""

    name: str
    url: str
    wave: str = "rest"
    owner: str = ""
    paused: bool = False
    automerge: bool = False
    answers: dict[str, str] = field(default_factory=dict, hash=False)  # of an old repository that is to join

    @property
    def place(self) -> str:
        """Return the address without its credentials."""
        return CREDENTIALS.sub(lambda found: found[1] or found[2][:-1] + "@", self.url)


@dataclass(frozen=True)
class HostRule:
    """How requests are opened for children whose URL starts with `match`.

    With `owner` (an organisation, a person, a group) its repositories that follow `template` are children too.
    """

    match: str
    kind: str
    api: str = ""
    token_env: str = ""
    owner: str = ""
    template: str = ""

    def token(self) -> str:
        """Return the access token from the environment. Raises FleetError when it is not set."""
        token = os.environ.get(self.token_env, "")
        if not token:
            raise FleetError(f"{self.kind} needs a token: set {self.token_env or 'token_env in fleet.yml'}")
        return token


@dataclass(frozen=True)
class Fleet:
    """What fleet.yml says."""

    children: list[Child]
    hosts: list[HostRule] = field(default_factory=list)

    def known_hosts(self) -> set[str]:
        """Return the hosts that the list names: of children and of templates."""
        named = [child.place for child in self.children] + [rule.template for rule in self.hosts if rule.template]
        return {host_in(address) for address in named}

    def host_of(self, child: Child) -> HostRule:
        """Return the rule of the child's host; without one, it is plain git: a branch and no request."""
        return next((rule for rule in self.hosts if child.place.startswith(rule.match)), HostRule("", "git"))


def text_of(answer: object) -> str:
    """Return an answer of fleet.yml as it is given on a command line."""
    return answer if isinstance(answer, str) else json.dumps(answer)


def child_of(entry: dict[str, Any], where: str) -> Child:
    """Check one entry of fleet.yml. Raises FleetError."""
    unknown = set(entry) - KEYS
    if unknown or not entry.get("url"):
        raise FleetError(f"{where}: {entry} needs a url and knows {', '.join(sorted(KEYS))}")
    url = str(entry["url"])
    check_address(url)
    name = entry.get("name") or url.rstrip("/").removesuffix(".git").replace(":", "/").rsplit("/", 1)[-1]
    flags = {key: bool(entry.get(key, False)) for key in ("paused", "automerge")}
    if not isinstance(entry.get("answers") or {}, dict):
        raise FleetError(f"{where}: {url}: answers are pairs, as {{project_type: service}}, not {entry['answers']!r}")
    answers = {str(key): text_of(value) for key, value in (entry.get("answers") or {}).items()}
    child = Child(str(name), url, entry.get("wave", "rest"), entry.get("owner", ""), **flags, answers=answers)
    if child.wave not in WAVES:
        raise FleetError(f"{where}: {child.name} has wave {child.wave!r}: it needs one of {', '.join(WAVES)}")
    if not child.name.replace("-", "").replace("_", "").replace(".", "").isalnum() or child.name.startswith("."):
        raise FleetError(f"{where}: {child.name!r} is not a name: letters, digits, dots, dashes and underscores")
    return child


def discover(folder: Path) -> Fleet:
    """Return every repository under `folder` (bare or not) as a child of the last wave."""
    found = [path for path in sorted(folder.iterdir()) if (path / "HEAD").exists() or (path / ".git").exists()]
    if not found:
        raise FleetError(f"{folder} holds no git repository")
    return Fleet([Child(path.name.removesuffix(".git"), str(path.resolve())) for path in found])


def load(place: Path) -> Fleet:
    """Return the fleet of a fleet.yml or of a folder. Raises FleetError."""
    if place.is_dir():
        return discover(place)
    try:
        text = yaml.safe_load(place.read_text(encoding="utf-8"))
        hosts = [HostRule(**rule) for rule in text.get("hosts") or []]
        own = text.get("children") if any(rule.owner for rule in hosts) else text["children"]
        children = [child_of(entry, place.name) for entry in own or []]
    except FileNotFoundError as error:
        raise FleetError(
            f"{place} does not exist: write it (docs/fleet.md) or name a folder of repositories"
        ) from error
    except (yaml.YAMLError, KeyError, TypeError) as error:
        why = " ".join(str(error).split())
        raise FleetError(f"{place} is not a fleet file: it needs a list 'children' with a url each ({why})") from error
    names = [child.name for child in children]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FleetError(f"{place}: the name {twice[0]} appears twice: give one of them another name")
    return Fleet(children, hosts)


def as_text(fleet: Fleet) -> str:
    """Return a fleet file with every child and the hosts, which list nothing any more."""
    children = [{key: value for key, value in asdict(child).items() if value} for child in fleet.children]
    hosts = [{key: value for key, value in asdict(rule).items() if value and key != "owner"} for rule in fleet.hosts]
    return yaml.safe_dump({"children": children, "hosts": hosts}, sort_keys=False, allow_unicode=True)
