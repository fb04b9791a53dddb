"""Refuses settings that need trust or keep fixes away, and questions whose recorded answers no longer count."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from releasekit.check import Check
from releasekit.questions import (
    Answers,
    choices,
    name_of,
    narrowed,
    plain_sets,
    questions,
    refusal,
    settings_of,
    telling_of_updates,
    without_files,
)

FORBIDDEN = {
    "_tasks": "children would need --trust",
    "_migrations": "children would need --trust",
    "_jinja_extensions": "children would need --trust",
    "_skip_if_exists": "fixes of those files would never arrive; what is the owner's is a seed",
}
UNLIKE = {  # what a version does not change, and why
    "_answers_file": "children keep their answers where the last version put them",
    "_templates_suffix": "the files of the template have the names that the last version reads",
}


def check_settings(check: Check) -> None:
    """Refuse what needs trust or keeps fixes away, links, and questions that children can no longer answer."""
    for name, why in FORBIDDEN.items():
        if check.settings.get(name):
            check.refuse(f"copier.yml has {name}: {why}")
    old = settings_of(check.old)
    for name, why in UNLIKE.items():
        if old.get(name) != check.settings.get(name):
            check.refuse(f"copier.yml has another {name}: {why}")
    check_environment(check, old.get("_envops") or {}, check.settings.get("_envops") or {})
    check_files(check)
    before, after = questions(check.old), questions(check.new)
    for name, question in before.items():
        if name not in after:
            check.gone("question", name, f"the question {name}")
        else:
            check_question(check, name, question, after[name])
    for name in after.keys() - before.keys():
        if "default" not in after[name] and after[name].get("when", True) is True:
            check.refuse(f"the question {name} is new and has no default: children cannot update without an answer")


def check_environment(check: Check, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Refuse what would let Jinja write other texts than the templates were written for."""
    if before.get("undefined") not in (None, after.get("undefined")):
        check.refuse(f"copier.yml: undefined is no longer {before['undefined']}: a wrong name would be told by nothing")
    if after.get("autoescape") and not before.get("autoescape"):
        check.refuse("copier.yml: autoescape writes quotation marks and ampersands of answers as HTML")


def check_files(check: Check) -> None:
    """Refuse links among the files of the template, and two files that are rendered to one."""
    folder = check.new / str(check.settings.get("_subdirectory", "")).partition("{")[0]
    suffix = str(check.settings.get("_templates_suffix", ".jinja"))
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(check.new)
        if path.is_symlink():
            check.refuse(f"{name} is a link: not every system can check it out")
        plain = path.with_name(path.name.removesuffix(suffix))
        if suffix and plain != path and plain.name and plain.exists():
            check.refuse(f"{name} and {plain.name} beside it are rendered to the same file")


def check_question(check: Check, name: str, before: Answers, after: Answers) -> None:
    """Refuse what makes an answer that children have recorded impossible, or lets it be forgotten."""
    for value in choices(before):
        if value not in choices(after):
            check.gone("choice", f"{name}={value}", f"the choice {value} of {name}")
    for key, usual in (("type", None), ("multiselect", False)):
        old, new = before.get(key, usual), after.get(key, usual)
        if old != new and ("type", name) not in check.retired:
            check.refuse(f"the question {name} has {key} {new} instead of {old}: recorded answers do not fit")
    if after.get("secret") and not before.get("secret"):
        check.refuse(f"the question {name} is secret now: its answers are no longer recorded")


def check_validators(check: Check) -> None:
    """Refuse a free text that was an answer and is none any more."""
    for name, text, why in narrowed(check.old, check.new):
        if ("validator", name) not in check.retired:
            check.refuse(
                f"the question {name} took {text!r} and refuses it now ({why}): keep its validator as wide, or "
                f"list it in templates/retired.yml (kind validator, name {name})"
            )


def check_defaults(check: Check) -> None:
    """Refuse defaults with which nobody could start, and messages that end a copy or an update with an error."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        told = {"a copy": without_files(check.new, folder / "copy")}
        told["an update"] = telling_of_updates(check.new, folder / "update")
        for number, answers in enumerate(plain_sets(check.new)):
            where, target = name_of(answers) or "nothing else answered", folder / str(number)
            if reason := refusal(check.new, answers, target, pretend=True):
                check.refuse(f"nobody can start with the defaults ({where}): {reason}")
                continue
            for what, template in told.items():
                if reason := refusal(template, answers, target, pretend=True, quiet=False):
                    check.refuse(f"the message of {what} cannot be written ({where}): {reason}")
