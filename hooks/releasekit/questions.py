"""What a template asks: its settings, its questions, and every distinct set of answers that its choices make."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from copier import run_copy
from copier._template import load_template_config
from family import asked_questions
from gpu_repo_runtime.update.git_calls import as_nobody
from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

Answers = dict[str, Any]
NAME = {"project_name": "topic-finder"}
FALSE = ("false", "no", "off", "0", "", "none")
TEXTS = (  # answers that somebody gave: the free-text questions of the new version must take what the old one took
    "a", "x1", "Topic", "topic-finder", "topic_finder", "a-b-c", "a1-2b", "a-1", "1a", "-a", "né", "with space",
    "test", "numpy", "class", "app", "registry.example.com", "registry.example.com/ml", "localhost:5000/a_b/c-d",
    "10.0.0.1:5000", "host/with.dot/and__two", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu",
    "gpu.intel.com/i915", "example.com/A_b.c-D", "{{ x }} $HOME", "Says \"5 × 3 = 15\" & 'more': #1 \\n 🙂",
    "ends with a dot.", "two  spaces",
    *("z" * length for length in (2, 3, 8, 16, 20, 24, 30, 32, 39, 40, 50, 60, 63, 64, 80, 100, 120, 128, 150, 200)),
    *("a" * length + "-9" * length for length in (1, 5, 10, 13)), *("a_" * length + "z" for length in (5, 10, 15, 19)),
    *("registry.example.com/" + "a" * length for length in (10, 40, 80, 179)),
    *("Words " * length + "end" for length in (3, 8, 12, 16, 24, 32)),
)  # fmt: skip
WRITTEN: tuple[Any, ...] = (  # the same, of questions whose answer is not text
    {}, [], {"code": ["old/"]}, {"kept": ["Dockerfile"], "baseline": True},
    {"code": ["old/"], "kept": ["README.md"], "package": "old", "requirements": "requirements", "asks": True},
)  # fmt: skip


def settings_of(template: Path) -> Answers:
    """Return copier.yml as Copier reads it, with what it includes."""
    return dict(load_template_config(template / "copier.yml", quiet=True))


def questions(template: Path) -> dict[str, Answers]:
    """Return the questions that are asked, each in its long form."""
    settings = settings_of(template)
    secret = settings.get("_secret_questions") or []
    known = facts(template, settings)
    return {
        name: text | ({"secret": True} if name in secret else {}) | with_choices(template, text, known)
        for name, text in asked_questions(settings).items()
    }


def facts(template: Path, settings: Answers) -> Answers:
    """Return what a template reads from files of its own and never asks: it may offer what stands there."""
    return {
        name: yaml.safe_load(text)
        for name, question in settings.items()
        if isinstance(question, dict) and question.get("when") is False and question.get("type") == "yaml"
        if (text := rendered(template, str(question.get("default", "")), {})) is not None
    }


def with_choices(template: Path, question: Answers, known: Answers) -> Answers:
    """Return the choices of a question that offers what is known, nothing for any other."""
    offered = question.get("choices")
    text = rendered(template, offered, known) if isinstance(offered, str) else None
    return {} if text is None else {"choices": yaml.safe_load(text)}


def rendered(template: Path, text: str, known: Answers) -> str | None:
    """Return a text of copier.yml filled in, None where it needs more than what is known."""
    environment = SandboxedEnvironment(loader=FileSystemLoader(template), undefined=StrictUndefined)
    environment.filters["to_json"] = json.dumps
    try:
        return environment.from_string(text).render(**known)
    except TemplateError:
        return None


def choices(question: Answers) -> list[Any]:
    """Return the values that a question offers; a yes-or-no question offers both."""
    if question.get("type") == "bool":
        return [True, False]
    offered = question.get("choices", [])
    if isinstance(offered, str):  # a template of choices that needs answers
        return []
    values = list(offered.values()) if isinstance(offered, dict) else list(offered)
    values = [value[1] if isinstance(value, list) and len(value) == 2 else value for value in values]
    return [value["value"] if isinstance(value, dict) else value for value in values]


def offered_answers(question: Answers) -> list[Any]:
    """Return the answers to try: each choice; where several may be given, none, each alone, and all."""
    values = choices(question)
    if not question.get("multiselect"):
        return values
    return [[], *([value] for value in values), *([values] if len(values) > 1 else [])]


@cache
def compiled(text: str) -> Template:
    """Return a condition or a default of copier.yml, compiled once for thousands of combinations."""
    return SandboxedEnvironment().from_string(text)


def asked(question: Answers, known: Answers) -> bool:
    """Tell whether a question is asked, given the answers before it."""
    condition = question.get("when", True)
    if not isinstance(condition, str):
        return bool(condition)
    try:
        return compiled(condition).render(**known).strip().lower() not in FALSE
    except TemplateError:  # it needs what only Copier knows
        return True


def default_of(question: Answers, known: Answers) -> Any:
    """Return what a question is taken to be answered with where it is not asked."""
    value = question.get("default")
    try:
        value = compiled(value).render(**known) if isinstance(value, str) else value
    except TemplateError:
        return ""
    return value.strip().lower() not in FALSE if question.get("type") == "bool" and isinstance(value, str) else value


def parts_of(question: Answers) -> list[Any]:
    """Return every part of a list of which several may be given; nothing for any other question."""
    values = choices(question) if question.get("multiselect") else []
    return [list(part) for count in range(len(values) + 1) for part in combinations(values, count)] if values else []


def combined(offered: dict[str, list[Any]], parts: dict[str, list[Any]]) -> Iterator[Answers]:
    """Give every combination of `offered`, and every part of each list with the first of all else.

    The first question, which decides what else is asked, is combined with every part too.
    """
    for values in product(*offered.values()):
        yield dict(zip(offered, values, strict=True))
    plain = {name: values[0] for name, values in offered.items()}
    leading = next(iter(offered), "")
    for name, every_part in parts.items():
        for first, part in product(offered[leading], every_part):
            yield plain | {leading: first} | {name: part}


def answer_sets(template: Path) -> list[Answers]:
    """Return every distinct combination of choices, without the questions that are not asked for it.

    Of a list: none, each entry alone and all of them with every other choice; its other parts with the first choices.
    So parts of two lists at once, and parts beside another choice than the first, are a sample.
    """
    every = questions(template)
    offered = {name: values for name, question in every.items() if (values := offered_answers(question))}
    parts = {name: values for name, question in every.items() if (values := parts_of(question))}
    found: dict[str, Answers] = {}
    for chosen in combined(offered, parts):
        given = NAME | chosen
        known, answers = dict(NAME), dict(NAME)
        for name, question in every.items():
            here = asked(question, known)
            known[name] = given[name] if here and name in given else default_of(question, known)
            if here and name in given:
                answers[name] = given[name]
        found.setdefault(repr(sorted(answers.items(), key=str)), answers)
    return list(found.values())


def name_of(answers: Answers) -> str:
    """Return a set's name for people: its choices in a row."""
    values = (value for name, value in answers.items() if name not in NAME)
    return " ".join("+".join(map(str, value)) or "none" if isinstance(value, list) else str(value) for value in values)


def plain_sets(template: Path) -> list[Answers]:
    """Return one answer set for each choice of the first question, in which all else is left to the defaults."""
    first = next(((name, values) for name, asked in questions(template).items() if (values := choices(asked))), None)
    return [NAME | {first[0]: value} for value in first[1]] if first else [NAME]


def refusal(template: Path, answers: Answers, folder: Path, pretend: bool = False, quiet: bool = True) -> str | None:
    """Render one answer set into `folder`; return why Copier cannot, None where it can. `quiet` leaves messages out."""
    try:
        with as_nobody(), warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            run_copy(str(template), folder, data=answers, defaults=True, quiet=quiet, pretend=pretend)
    except Exception as error:  # whatever a template does wrong is a reason
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None


def is_an_answer_refused(reason: str) -> bool:
    """Tell whether a template said no to an answer, as it may, from a template that is broken."""
    return reason.startswith("Validation error for question")


def without_files(template: Path, folder: Path, **more: Any) -> Path:
    """Return a copy of a template that asks the same and renders nothing; `more` are settings of it alone."""
    shutil.copytree(template, folder, symlinks=True)
    settings = settings_of(template) | {"_subdirectory": ".nothing"} | more
    (folder / "copier.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    (folder / ".nothing").mkdir()
    return folder


def telling_of_updates(template: Path, folder: Path) -> Path:
    """Return a copy of a template that says to who copies it what it says to who updates, and renders nothing."""
    settings = settings_of(template)
    said = {f"_message_{when}_copy": settings.get(f"_message_{when}_update", "") for when in ("before", "after")}
    return without_files(template, folder, **said)


def words_in(value: Any) -> set[str]:
    """Return every text in a value, however deep."""
    if isinstance(value, dict | list):
        return {word for one in (value.values() if isinstance(value, dict) else value) for word in words_in(one)}
    return {value} if isinstance(value, str) else set()


def changed_validators(old: Path, new: Path) -> dict[str, list[Any]]:
    """Return the free questions that may refuse more than before, each with the answers to try.

    A validator refuses more where its text is another, and where a file that it reads has new words.
    """
    before, after = questions(old), questions(new)
    known = [facts(template, settings_of(template)) for template in (old, new)]
    found: dict[str, list[Any]] = {}
    for name in before:
        if name not in after or offered_answers(before[name]):
            continue
        text = str(after[name].get("validator", ""))
        moved = [fact for fact in known[1] if re.search(rf"\b{fact}\b", text) and known[1][fact] != known[0].get(fact)]
        new_words = sorted({word for fact in moved for word in words_in(known[1][fact]) - words_in(known[0].get(fact))})
        texts = WRITTEN if after[name].get("type") in ("yaml", "json") else TEXTS
        if before[name].get("validator") != after[name].get("validator"):
            found[name] = [*texts, *new_words]
        elif new_words:
            found[name] = list(new_words)
    return found


def narrowed(old: Path, new: Path) -> list[tuple[str, Any, str]]:
    """Return question, answer and reason for each free answer that the old version took and the new one refuses."""
    found = []
    changed = changed_validators(old, new)
    if not changed:
        return []
    with TemporaryDirectory() as folder:
        templates = [without_files(old, Path(folder, "old")), without_files(new, Path(folder, "new"))]
        for name, texts in changed.items():
            for text in texts:
                answers = NAME | {name: text}
                said = [refusal(template, answers, Path(folder, "out"), pretend=True) for template in templates]
                if said[0] is None and said[1] is not None:
                    found.append((name, text, said[1]))
                    break
    return found
