"""Questions and settings of copier.yml that would lock children out of updates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from releasekit.answer_sets import deciding
from releasekit.findings import Finding, gone
from releasekit.template import Template, refusal

FORBIDDEN = {
    "tasks": "children would need --trust",
    "migrations": "children would need --trust",
    "jinja_extensions": "children would need --trust",
    "skip_if_exists": "fixes of those files would never arrive",
}
FIXED = ("answers_file", "templates_suffix")
TEXTS = (  # free-text answers that existing children may have
    "a", "x1", "topic-finder", "topic_finder", "a-b-c", "Find topics: \"5 × 3\" & 'more' \\n 🙂",
    "registry.example.com", "localhost:5000/a_b/c-d", "10.0.0.1:5000", "registry.example.com/" + "a" * 179,
    "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "example.com/A_b.c-D",
    *("z" * length for length in (8, 30, 40, 100, 200)),
)  # fmt: skip


def check_settings(old: Template, new: Template) -> Iterator[Finding]:
    """Find settings that need trust, keep fixes away, or change how files are read."""
    for name, why in FORBIDDEN.items():
        if new.settings.get(name):
            yield Finding(f"copier.yml has _{name}: {why}")
    for name in FIXED:
        if old.settings.get(name) != new.settings.get(name):
            yield Finding(f"copier.yml has another _{name}: children keep the one that they were made with")
    before, after = (one.settings.get("envops") or {} for one in (old, new))
    if before.get("undefined") not in (None, after.get("undefined")):
        yield Finding(f"copier.yml: undefined is no longer {before['undefined']}: a misspelled name would go unnoticed")
    if after.get("autoescape") and not before.get("autoescape"):
        yield Finding("copier.yml: autoescape writes quotation marks and ampersands of answers as HTML")


def check_questions(old: Template, new: Template) -> Iterator[Finding]:
    """Find questions whose recorded answers no longer fit, and new ones without a default."""
    for name, before in old.questions.items():
        after = new.questions.get(name)
        if after is None:
            yield gone("question", name, f"the question {name}")
            continue
        for value in old.choices.get(name, []):
            if value not in new.choices.get(name, []):
                yield gone("choice", f"{name}={value}", f"the choice {value} of {name}")
        for key, usual in (("type", None), ("multiselect", False)):
            if before.get(key, usual) != after.get(key, usual):
                reason = f"the question {name} has {key} {after.get(key, usual)} instead of {before.get(key, usual)}"
                yield Finding(f"{reason}: recorded answers do not fit", "type", name)
        if after.get("secret") and not before.get("secret"):
            yield Finding(f"the question {name} is secret now: its answers are no longer recorded")
    for name in new.questions.keys() - old.questions.keys():
        if "default" not in new.questions[name] and new.questions[name].get("when", True) is True:
            yield Finding(f"the question {name} is new and has no default: children cannot update without an answer")


def check_validator(old: Template, new: Template, name: str) -> list[Finding]:
    """Find a free-text answer that the old version accepts and a changed validator rejects."""
    before, after = old.questions[name], new.questions[name]
    free = name not in old.choices and after.get("type", "str") == before.get("type", "str") == "str"
    if not free or before.get("validator") == after.get("validator"):
        return []
    for text in TEXTS:
        if (reason := refusal(new.folder, {name: text})) and not refusal(old.folder, {name: text}):
            said = f"the question {name} accepted {text!r} and rejects it now ({reason}): keep its validator as wide"
            return [Finding(f"{said}, or list it in templates/retired.yml (kind validator)", "validator", name)]
    return []


def check_start(new: Template) -> Iterator[Finding]:
    """Find defaults with which no child can start, and messages that cannot be printed."""
    first = deciding(new)[:1]
    for value in new.choices[first[0]] if first else [None]:
        answers = {first[0]: value} if first else {}
        if reason := refusal(new.folder, answers, quiet=False):
            yield Finding(f"no child can start with the defaults ({value}): {reason}")


def check_sources(new: Template) -> Iterator[Finding]:
    """Find links among the files of the template, and two files that are rendered to one."""
    root = new.folder / str(new.settings.get("subdirectory", "")).partition("{")[0]
    suffix = str(new.settings.get("templates_suffix", ".jinja"))
    for path in sorted(root.rglob("*")):
        plain = path.with_name(path.name.removesuffix(suffix))
        if path.is_symlink():
            yield Finding(f"{path.relative_to(new.folder)} is a link: Windows cannot check it out")
        if plain.name and plain != path and plain.exists():
            yield Finding(f"{path.relative_to(new.folder)} and {plain.name} are rendered to the same file")


def image_states(template: Path) -> dict[str, str]:
    """Return the state of each image in the catalogue."""
    place = template / "base-images" / "catalog.yml"
    rows: list[dict[str, Any]] = yaml.safe_load(place.read_text(encoding="utf-8"))["images"] if place.exists() else []
    return {row["name"]: row["state"] for row in rows}


def check_images(old: Path, new: Path) -> Iterator[Finding]:
    """Find images that are gone or newly retired."""
    now = image_states(new)
    for name, state in image_states(old).items():
        if state != "retired" and now.get(name, "retired") == "retired":
            yield gone("image", name, f"the image {name}")
