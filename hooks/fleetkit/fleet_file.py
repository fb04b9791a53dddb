"""Which repositories the fleet has: fleet.yml, or what is found in a folder."""

from __future__ import annotations

import json
import re
import reprlib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml

from fleetkit.answers import values_in
from fleetkit.children import WAVES, Child, Fleet, FleetError, HostRule, check_address

FLAGS = ("paused", "automerge")
TEXTS = ("name", "url", "wave", "owner")
KEYS = {*FLAGS, *TEXTS, "answers"}
TOP = {"children", "hosts"}
KINDS = ("git", "github", "gitlab")
MOST = 1_000_000  # values in the file, once each alias stands for what it names
LONGEST_NAME = 150  # letters: files are called by it, and most file systems take 255


class Strict(yaml.SafeLoader):
    """YAML in which no key appears twice: of two lists of children the first would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping. Raises ConstructorError for a key that appears twice."""
        known: list[Any] = []
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is not None and name != "<<" and name in known:
                raise yaml.constructor.ConstructorError(None, None, f"{name} appears twice", key.start_mark)
            known.append(name)
        return super().construct_mapping(node, deep)


def content_of(text: str) -> dict[str, Any]:
    """Return what a fleet file says. Raises YAMLError, RecursionError, TypeError and ValueError."""
    loader = Strict(text)
    try:
        node = loader.get_single_node()
        if node is not None and values_in(node, {}) > MOST:
            raise ValueError(f"it unfolds to more than {MOST} values")
        content = loader.construct_document(node) if node is not None else None
    finally:
        loader.dispose()
    if not isinstance(content, dict):
        raise TypeError("it is empty" if content is None else f"it holds a {type(content).__name__}")
    unknown = [str(key) for key in content if key not in TOP and not str(key).startswith("x-")]
    if unknown:
        raise TypeError(f"{unknown[0]} is unknown")
    return content


def text_of(answer: object) -> str:
    """Return an answer of fleet.yml as it is given on a command line."""
    return answer if isinstance(answer, str) else json.dumps(answer)


def child_of(entry: Any, where: str) -> Child:
    """Check one entry of fleet.yml. Raises FleetError."""
    if not isinstance(entry, dict) or set(entry) - KEYS or not entry.get("url"):
        raise FleetError(f"{where}: {reprlib.repr(entry)} needs a url and knows {', '.join(sorted(KEYS))}")
    url = str(entry["url"])
    check_address(url)
    for key in set(entry) & {*FLAGS, *TEXTS} - {"url"}:
        wanted, what = (bool, "true or false") if key in FLAGS else (str | int, "a text")
        if entry[key] is not None and not isinstance(entry[key], wanted):  # "false" in quotes would count as true
            raise FleetError(f"{where}: {url}: {key} is {what}, not {reprlib.repr(entry[key])}")
    if not isinstance(entry.get("answers") or {}, dict):
        raise FleetError(f"{where}: {url}: answers are pairs, as {{project_type: service}}, not {entry['answers']!r}")
    last = url.rstrip("/").removesuffix(".git").replace(":", "/").rsplit("/", 1)[-1]
    name, owner = str(entry.get("name") or last), str(entry.get("owner") or "")
    wave = str(entry.get("wave", "rest"))
    answers = {str(key): text_of(value) for key, value in (entry.get("answers") or {}).items()}
    paused, automerge = (bool(entry.get(key)) for key in FLAGS)
    child = Child(name, url, wave, owner, paused, automerge, answers)
    if child.wave not in WAVES:
        raise FleetError(f"{where}: {child.name} has wave {child.wave!r}: it needs one of {', '.join(WAVES)}")
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
        raise FleetError(f"{where}: {name!r} is not a name: letters, digits, dots, dashes and underscores")
    if len(name.encode()) > LONGEST_NAME:
        raise FleetError(f"{where}: {name[:40]}... is longer than a name may be: give it one with `name`")
    return child


def host_of(entry: Any, where: str) -> HostRule:
    """Check one entry of `hosts`. Raises FleetError."""
    known = {field.name for field in fields(HostRule)}
    if not isinstance(entry, dict) or set(entry) - known or not {"match", "kind"} <= set(entry):
        raise FleetError(f"{where}: {reprlib.repr(entry)} needs match and kind, and knows {', '.join(sorted(known))}")
    rule = HostRule(**{key: str(value or "") for key, value in entry.items()})
    if rule.kind not in KINDS:
        raise FleetError(f"{where}: {rule.match}: there is no host {rule.kind!r}: it needs one of {', '.join(KINDS)}")
    if rule.api and not rule.api.startswith(("https://", "http://")):
        raise FleetError(f"{where}: {rule.match}: api is an address, https://..., not {rule.api!r}")
    return rule


def name_for(text: str) -> str:
    """Return a name for a repository that nobody named."""
    return re.sub(r"[^\w.-]", "-", text).lstrip(".")[: LONGEST_NAME // 4] or "repository"


def discover(folder: Path) -> Fleet:
    """Return every repository under `folder` (bare or not) as a child of the last wave."""
    found = [path for path in sorted(folder.iterdir()) if (path / "HEAD").exists() or (path / ".git").exists()]
    if not found:
        raise FleetError(f"{folder} holds no git repository")
    named = [{"url": str(path.resolve()), "name": name_for(path.name.removesuffix(".git"))} for path in found]
    return Fleet([child_of(entry, str(folder)) for entry in named]).checked()


def load(place: Path) -> Fleet:
    """Return the fleet of a fleet.yml or of a folder. Raises FleetError."""
    if place.is_dir():
        return discover(place)
    try:
        content = content_of(place.read_text(encoding="utf-8"))
        hosts = [host_of(rule, place.name) for rule in content.get("hosts") or []]
        own = content.get("children") if any(rule.owner for rule in hosts) else content["children"]
        return Fleet([child_of(entry, place.name) for entry in own or []], hosts).checked()
    except FileNotFoundError as error:
        raise FleetError(
            f"{place} does not exist: write it (docs/fleet.md) or name a folder of repositories"
        ) from error
    except (yaml.YAMLError, KeyError, TypeError, ValueError, RecursionError, OSError) as error:
        why = " ".join(str(error).split())
        raise FleetError(f"{place} is not a fleet file: it needs a list 'children' with a url each ({why})") from error


def as_text(fleet: Fleet) -> str:
    """Return a fleet file with every child and the hosts, which list nothing any more."""
    children = [{key: value for key, value in asdict(child).items() if value} for child in fleet.children]
    hosts = [{key: value for key, value in asdict(rule).items() if value and key != "owner"} for rule in fleet.hosts]
    return yaml.safe_dump({"children": children, "hosts": hosts}, sort_keys=False, allow_unicode=True)
