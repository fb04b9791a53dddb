"""The values that options take, the shard that the environment sets, and the owner's ``Parameters``."""

import argparse
import codecs
import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from ..interface import Interface
from ..owntypes import sentence, shown
from .columns import DECLARED
from .exits import BadConfiguration

# What a 64-bit number, a float and Arrow all hold.
LARGEST = 1 << 53


def _number(kind: Callable[[str], Any], words: str, holds: Callable[[Any], bool]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        with suppress(ValueError):
            found = kind(text)
            if abs(found) <= LARGEST and holds(found):
                return found
        raise argparse.ArgumentTypeError(f"{text!r} is not a {words}")

    return read


positive = _number(int, "whole number from 1 on", lambda number: number >= 1)
# A seed of any random generator.
whole = _number(int, f"whole number from 0 to {(1 << 32) - 1}", lambda number: 0 <= number < 1 << 32)
share = _number(float, "share from 0 to 1", lambda number: 0 <= number <= 1)
above_zero = _number(float, "number above 0", lambda number: number > 0)
seconds = _number(float, "number of seconds from 0 on", lambda number: number >= 0)


def address(text: str) -> str:
    """Return a path or URI that is not blank and, as a URI, not only a scheme.

    A relative path is one of JOB_FOLDER, where that is set: scripts/run sets it to the folder it is called from.
    """
    scheme, mark, rest = text.partition(":/")
    if mark and scheme.isalnum() and not rest.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} needs two slashes: {scheme}://... (a folder is ./{text})")
    return not_blank(text) if "://" in text else os.path.join(os.environ.get("JOB_FOLDER", ""), not_blank(text))


def not_blank(text: str) -> str:
    """Return an address that is not blank and not only a scheme."""
    _, scheme, rest = text.partition("://")
    if not (rest.strip("/ ") or text == "file:///" if scheme else text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a path nor a URI (is a variable empty?)")
    return text


def delimiter(text: str) -> str:
    r"""Return one character; \t is a tab."""
    found = "\t" if text == "\\t" else text
    if len(found) != 1 or not found.isascii() or found in '"\r\n':
        raise argparse.ArgumentTypeError(f"{text!r} is not one character that can separate fields")
    return found


def encoding(text: str) -> str:
    """Return the name of an encoding of text, "" for UTF-8."""
    try:
        "a\n".encode(text)
    except (LookupError, ValueError, TypeError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an encoding of text, for example latin-1 or utf-16"
        ) from None
    name = codecs.lookup(text).name
    return "" if name in ("utf-8", "utf-8-sig") else name


def names(text: str) -> list[str]:
    """Return names that are separated by commas, each once; one with a comma is in double quotes."""
    try:
        found = [name for name in next(csv.reader([text], strict=True), []) if name]
    except csv.Error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names: {error}") from None
    twice = next((name for name, times in Counter(found).items() if times > 1), None)
    if twice:
        raise argparse.ArgumentTypeError(f"{twice!r} appears twice")
    return found


def nulls(text: str) -> list[str]:
    """Return words for no value; none at all is the empty text."""
    return names(text) or [""]


def column_types(text: str) -> dict[str, pa.DataType]:
    """Return the types of columns, written as score=double,zip=string."""
    pairs = [part.rpartition("=") for part in text.split(",") if part]
    wrong = [form for name, _, form in pairs if not name or form not in DECLARED]
    if wrong:
        raise argparse.ArgumentTypeError(f"{text!r}: expected COLUMN=TYPE, with a type of {', '.join(DECLARED)}")
    return {name: DECLARED[form] for name, _, form in pairs}


def find_shard(option: str | None, environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Return (index, count) of the shard: from --shard I/N, or from a Kubernetes Indexed Job.

    Raises BadConfiguration when they make no sense.
    """
    index, count, source = "0", "1", ""
    if environment.get("WORLD_SIZE", "1") != "1":
        raise BadConfiguration("WORLD_SIZE is set: start the job without torchrun, --workers uses the machine's GPUs")
    if option:
        (index, _, count), source = option.partition("/"), f"--shard {option}"
    elif "JOB_COMPLETION_INDEX" in environment:
        # Kubernetes gives the index and not the count, so the manifest has to pass it.
        index, count = environment["JOB_COMPLETION_INDEX"], environment.get("JOB_COMPLETIONS", "")
        source = "JOB_COMPLETION_INDEX and JOB_COMPLETIONS (it has to be the completions of the Job)"
    if not (index.isdecimal() and count.isdecimal()):
        raise BadConfiguration(f"{source}: the shard needs an index and a count, for example 0/4")
    if int(index) >= int(count):
        raise BadConfiguration(f"{source}: the index {index} has to be below the count {count}")
    return int(index), int(count)


def parameters_of(interface: Interface, options: Sequence[str]) -> Any:
    """Return an object of the owner's ``Parameters``, None for a model without them. Raises BadConfiguration.

    options: NAME=VALUE; a value is what it would be in JSON where it fits so, else a text.
    """
    if interface.parameters is None:
        if options:
            raise BadConfiguration(f"--parameter {options[0]}: the model has no class Parameters")
        return None
    adapter: TypeAdapter[Any] = TypeAdapter(interface.parameters)
    known = list(adapter.json_schema(mode="validation").get("properties", {}))
    texts: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for option in options:
        name, mark, text = option.partition("=")
        if not mark or (known and name not in known):
            own = f"{shown(interface.parameters)} has {', '.join(known)}"
            raise BadConfiguration(f"--parameter {option}: write NAME=VALUE; {own}")
        texts[name] = values[name] = text
        with suppress(ValueError):
            values[name] = json.loads(text)
    with suppress(ValidationError):
        return adapter.validate_json(json.dumps(texts))
    try:
        return adapter.validate_json(json.dumps(values))
    except ValidationError as error:
        raise BadConfiguration(f"--parameter {sentence(error)}") from None
