"""The answer sets that are compared: every pair of choices, or with `whole` every combination."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from allpairspy import AllPairs

from releasekit.template import NAME, REFUSED, Answers, Template, TemplateError, answers_of, refusal, render

Option = tuple[str, Any]  # a question and one value; for a question with several answers, an entry or None


def deciding(template: Template) -> list[str]:
    """Return the closed questions that decide whether another question is asked; the first one always counts."""
    conditions = {name: str(question.get("when", "")) for name, question in template.questions.items()}
    named = {
        name
        for name in template.choices
        for other, text in conditions.items()
        if other != name and re.search(rf"\b{name}\b", text)
    }
    return [name for number, name in enumerate(template.choices) if number == 0 or name in named]


def options_of(template: Template, name: str, whole: bool) -> list[list[list[Option]]]:
    """Return the factors of one question, each a list of alternatives; an alternative is a list of options."""
    values = template.choices[name]
    if not template.questions[name].get("multiselect"):
        return [[[(name, value)] for value in values]]
    if not whole:  # each entry is a yes-or-no question
        return [[[(name, None)], [(name, value)]] for value in values]
    every = [[], *([value] for value in values), *([values] if len(values) > 1 else [])]
    return [[[(name, None), *((name, value) for value in chosen)] for chosen in every]]


def answers_from(template: Template, chosen: Iterable[list[Option]]) -> Answers:
    """Return the answers that a row of options stands for."""
    answers: Answers = {}
    for name, value in (option for alternative in chosen for option in alternative):
        if not template.questions[name].get("multiselect"):
            answers[name] = value
        else:
            answers[name] = answers.get(name, []) + ([] if value is None else [value])
    return answers


def answer_sets(template: Template, whole: bool = False) -> Iterator[Answers]:
    """Give, for each answer to the deciding questions, every pair of the other choices; the defaults come first.

    With `whole`: every combination of choices, each with none, one and all entries of every list.
    """
    first = deciding(template)
    branches: dict[str, tuple[Answers, set[str]]] = {}
    for values in product(*(template.choices[name] for name in first)):
        fixed, asked = asked_after(template, dict(zip(first, values, strict=True)))
        branches.setdefault(repr(fixed), (fixed, asked))
    yield from (fixed for fixed, _ in branches.values())
    for fixed, asked in branches.values():
        others = [part for name in template.choices if name in asked for part in options_of(template, name, whole)]
        rows = product(*others) if whole or len(others) < 2 else AllPairs(others)
        yield from (fixed | answers_from(template, row) for row in rows if row)


def asked_after(template: Template, fixed: Answers) -> tuple[Answers, set[str]]:
    """Return those of the fixed answers whose question is asked, and the other questions that are asked then."""
    with TemporaryDirectory() as folder:
        try:
            render(template.folder, fixed, Path(folder, "child"))
        except TemplateError:  # rendering the answer set reports it
            return fixed, set()
        recorded = answers_of(Path(folder, "child")).keys()
    asked = {name: value for name, value in fixed.items() if name in recorded}
    return (asked, set(recorded) - set(asked)) if asked == fixed else asked_after(template, asked)


def render_nearest(template: Template, answers: Answers, folder: Path) -> list[str]:
    """Render an answer set, or the nearest one that the template takes; return why it rejected the first.

    Of a list it keeps the entries that it takes, for another question its default. Raises TemplateError.
    """
    reasons: list[str] = []
    answers = dict(answers)
    while True:
        try:
            render(template.folder, answers, folder)
        except TemplateError as error:
            question = rejected_question(str(error))
            if question not in answers:
                raise
            reasons.append(str(error))
            value = answers.pop(question)
            if isinstance(value, list) and (kept := accepted(template, answers, question, value)):
                answers[question] = kept
        else:
            return reasons


def rejected_question(reason: str) -> str:
    """Return the question whose answer Copier rejects, "" for any other error."""
    found = re.match(rf"{REFUSED}'(\w+)'", reason)
    return found[1] if found else ""


def accepted(template: Template, answers: Answers, question: str, entries: list[Any]) -> list[Any]:
    """Return the entries of a list that the template takes together."""
    kept: list[Any] = []
    for entry in entries:
        if rejected_question(refusal(template.folder, answers | {question: [*kept, entry]})) != question:
            kept.append(entry)
    return kept if len(kept) < len(entries) else []


def name_of(answers: Answers, template: Template) -> str:
    """Return the closed questions with their answers, for people."""
    parts = (
        f"{name}={'+'.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in answers.items()
        if name in template.choices and value != []
    )
    return " ".join(parts) or f"project_name={NAME['project_name']}"


def new_values(old: Template, new: Template) -> set[str]:
    """Return the answers, as `question=value`, that only the new template offers."""
    offered = [{f"{name}={v}" for name, values in one.choices.items() for v in values} for one in (old, new)]
    return offered[1] - offered[0]


def has_any(answers: Answers, values: set[str]) -> bool:
    """Return whether an answer set contains one of these answers."""
    given = {f"{name}={v}" for name, value in answers.items() for v in (value if isinstance(value, list) else [value])}
    return bool(given & values)
