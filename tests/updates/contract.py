"""What a code host's published description allows: the requests of the client and the answers of its stand-in."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.updates import gitlab_rules

APIS = Path(__file__).parent / "apis"
FAILURES = {"401", "403", "404", "429"}  # what any operation may answer, said in the description or not


@cache
def operations(kind: str) -> dict[str, Any]:
    """Return the operations of a host's description."""
    if kind == "gitlab":
        return gitlab_rules.OPERATIONS
    return dict(json.loads((APIS / f"{kind}.json").read_text(encoding="utf-8"))["operations"])


def operation(kind: str, method: str, path: str) -> tuple[str, dict[str, Any]] | None:
    """Return name and rules of the operation that a request is for; one with fewer variables goes first."""
    for name in sorted(operations(kind), key=lambda name: name.count("{")):
        verb, template = name.split(" ")
        pattern = re.sub(r"\{[^}]+\}", r"[^/]+", template)
        if verb == method and re.fullmatch(pattern, path):
            return name, operations(kind)[name]
    return None


def wrong(schema: dict[str, Any], value: Any) -> list[str]:
    """Return what a value is that its schema does not allow."""
    found = Draft202012Validator(schema).iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def from_text(schema: dict[str, Any], text: str) -> Any:
    """Return the value of a parameter of an address, in the type that it has."""
    if schema.get("type") == "integer" and text.isdecimal():
        return int(text)
    return {"true": True, "false": False}.get(text, text) if schema.get("type") == "boolean" else text


def request_faults(kind: str, method: str, path: str, query: dict[str, list[str]], body: Any) -> list[str]:
    """Return what is wrong with a request: an operation, a parameter or a field that the host does not know."""
    if path == "/graphql":
        return []
    found = operation(kind, method, path)
    if found is None:
        return [f"{method} {path} is not among the operations of {kind} that the tests know"]
    name, rules = found
    told = [f"parameter {key} is unknown" for key in query if key not in rules["query"]]
    for key, values in query.items():
        schema = rules["query"].get(key, {})
        told += [f"parameter {key} {fault}" for fault in wrong(schema, from_text(schema, values[0]))]
    schema = rules["body"] or {}
    told += wrong(schema, body) if body is not None or rules["body_required"] else []
    told += [f"field {key} is unknown" for key in body or {} if key not in fields(schema)]
    return [f"{name}: {fault}" for fault in told]


def fields(schema: dict[str, Any]) -> set[str]:
    """Return the fields that a body may have."""
    inner = [one for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, [])]
    return set(schema.get("properties", {})).union(*map(fields, inner))


def answer_faults(kind: str, method: str, path: str, code: int, answer: Any) -> list[str]:
    """Return what of a stand-in's answer the description does not allow."""
    found = operation(kind, method, path)
    if found is None:
        return []
    name, rules = found
    if str(code) not in rules["answers"].keys() | FAILURES:
        return [f"{name}: it never answers with {code}"]
    faults = wrong(rules["answers"].get(str(code)) or {}, answer)
    return [f"{name} answers {code}: {fault}" for fault in faults]
