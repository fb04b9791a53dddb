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
MOMENT = "2026-01-02T03:04:05Z"


@cache
def operations(kind: str) -> dict[str, Any]:
    """Return the operations of a host's description; none where there is no cut of it."""
    place = APIS / f"{kind}.json"
    return dict(json.loads(place.read_text(encoding="utf-8"))["operations"]) if place.exists() else {}


def operation(kind: str, method: str, path: str) -> tuple[str, dict[str, Any]] | None:
    """Return name and rules of the operation that a request is for; one with fewer variables goes first."""
    for name in sorted(operations(kind), key=lambda name: name.count("{")):
        verb, template = name.split(" ")
        pattern = re.sub(r"\{[^}]+\}", r"[^/]+", template)
        if verb == method and re.fullmatch(pattern, path):
            return name, operations(kind)[name]
    return None


def sample(schema: dict[str, Any]) -> Any:
    """Return the least that a schema allows."""
    if "null" in schema.get("type", ""):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return None if {"type": "null"} in schema[key] else sample(schema[key][0])
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: sample(schema["properties"][name]) for name in schema.get("required", [])}
    text = MOMENT if schema.get("format") == "date-time" else ""
    return {"array": [], "string": text, "integer": 0, "number": 0, "boolean": False}[kind]


def completed(schema: dict[str, Any], own: Any) -> Any:
    """Return what a fake says, with everything else that its host never leaves out."""
    if isinstance(own, list) and "items" in schema:
        return [completed(schema["items"], one) for one in own]
    if not isinstance(own, dict):
        return own
    for key in ("anyOf", "oneOf"):
        if key in schema:
            fitting = [one for one in schema[key] if one.get("type") == "object" and fits(one, own)]
            return completed(fitting[0], own) if fitting else own
    parts = schema.get("properties", {})
    return sample(schema | {"type": "object"}) | {
        name: completed(parts.get(name, {}), value) for name, value in own.items()
    }


def fits(schema: dict[str, Any], own: dict[str, Any]) -> bool:
    """Tell whether the choices of a schema leave what a fake says possible."""
    return all(
        own[name] in part["enum"]
        for name, part in schema.get("properties", {}).items()
        if "enum" in part and name in own
    )


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
    if kind == "gitlab":
        return gitlab_rules.faults(method, path, query, body)
    if not operations(kind) or path == "/graphql":
        return []
    found = operation(kind, method, path)
    if found is None:
        return [f"{method} {path} is not among the operations that apis/{kind}.json was cut for"]
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


def answer_to(kind: str, method: str, path: str, code: int, answer: Any) -> tuple[Any, list[str]]:
    """Return an answer with all that its host says, and what of it the description does not allow."""
    found = operation(kind, method, path)
    if found is None:
        return answer, []
    name, rules = found
    if str(code) not in rules["answers"].keys() | FAILURES:
        return answer, [f"{name}: it never answers with {code}"]
    schema = rules["answers"].get(str(code))
    if schema is None:
        return answer, []
    whole = completed(schema, answer)
    return whole, [f"{name} answers {code}: {fault}" for fault in wrong(schema, whole)]
