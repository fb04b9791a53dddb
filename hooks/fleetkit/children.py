"""A child of the fleet, the hosts of all of them, and how their addresses are written, compared and shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from gpu_repo_runtime.update.git_calls import without_secrets

WAVES = ("canary", "early", "rest")
CREDENTIALS = re.compile(r"(https?://)[^/@\s]+@|([a-z+]+://[^/@:\s]*:)[^/@\s]*@")  # a password, a token as the name
ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?([^/:]*)")
PROTOCOLS = ("file", "git", "http", "https", "ssh")
# What a terminal obeys, what turns the direction of the text around it, and what no file may hold.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


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


def place_of(address: str) -> tuple[str, str]:
    """Return host and path of a repository: the same by ssh and https, with and without .git, a user or a slash."""
    found, plain = host_in(address), address.rstrip("/").removesuffix(".git")
    if not found:
        return "", plain.removeprefix("file://")
    return found, re.sub(r"^(?:[a-z+]+://)?(?:[^/@]*@)?[^/:]*(?::[0-9]+(?=/))?[/:]*", "", plain)


def same_place(one: str, other: str) -> bool:
    """Tell whether two addresses name one repository."""
    return place_of(one) == place_of(other)


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

    def place_of(self, child: Child) -> tuple[str, str]:
        """Return what is one and the same for two addresses of one repository; code hosts take letters of any case."""
        host, path = place_of(child.place)
        return (host, path.lower()) if self.host_of(child).kind != "git" else (host, path)

    def checked(self) -> Fleet:
        """Return the fleet. Raises FleetError where two children have one name, or are one repository."""
        for what, key in (("the name", lambda c: c.name), ("the repository", self.place_of)):
            known: dict[object, Child] = {}
            for child in self.children:
                other = known.setdefault(key(child), child)
                if other is not child:
                    told = other.name if what == "the name" else f"of {other.name} and {child.name}"
                    raise FleetError(f"{what} {told} appears twice: {shown(other.url)} and {shown(child.url)}")
        return self

    def host_of(self, child: Child) -> HostRule:
        """Return the rule of the child's host; without one, it is plain git: a branch and no request."""
        return next((rule for rule in self.hosts if child.place.startswith(rule.match)), HostRule("", "git"))
