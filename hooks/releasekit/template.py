"""The template as Copier reads it, the answer sets that are compared, and the children that they give."""

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from copier import Settings, run_copy
from gpu_repo_runtime.update.render import ANSWERS

Answers = dict[str, Any]
NAME = {"project_name": "topic-finder"}
TEXTS = (  # free-text answers that existing children may have; each is given to every question that accepts it
    "x1", "Find topics: \"5 × 3\" & 'more' \\n é", "localhost:5000/a_b/c-d", "nvidia.com/mig-1g.10gb", "z" * 40,
)  # fmt: skip
CANDIDATES = 40  # random answer sets, of which the one with the most new pairs is taken


class TemplateError(Exception):
    """Copier cannot render the template; the message is its first line."""

    @property
    def question(self) -> str:
        """Return the question whose answer Copier rejects, "" for any other error."""
        found = re.match(r"""Validation error for question '(\w+)'|Question "(\w+)" is required""", str(self))
        return found[1] or found[2] if found else ""


@dataclass(frozen=True)
class Template:
    """A version of the template: its settings without their underscore, and its questions."""

    folder: Path
    settings: dict[str, Any]
    choices: dict[str, list[Any]]  # the values of each closed question
    lists: frozenset[str]  # closed questions with several answers
    texts: tuple[str, ...]

    @property
    def root(self) -> Path:
        """Return the folder with what is rendered, of every type."""
        return self.folder / str(self.settings.get("subdirectory", "")).partition("{")[0]


def render(template: Path, answers: Answers, folder: Path, pretend: bool = False) -> Any:
    """Render one child, with the answers that `folder` has already; return Copier's worker. Raises TemplateError."""
    try:
        settings = Settings()  # not those of the person who runs this
        return run_copy(str(template), folder, data=answers, defaults=True, overwrite=True, quiet=True,
                        pretend=pretend, settings=settings)  # fmt: skip
    except Exception as error:  # a template can fail with any error
        raise TemplateError((str(error).strip() or type(error).__name__).splitlines()[0]) from error


def read_template(folder: Path) -> Template:
    """Return the template in a folder. Raises TemplateError if no child can start with the defaults."""
    with TemporaryDirectory() as place:
        worker = render(folder, NAME, Path(place, "child"), pretend=True)
    known, data = worker.answers.combined, worker.template.questions_data
    asked = {name: question for name, question in data.items() if question.get("when") is not False}
    asked = dict(sorted(asked.items(), key=lambda item: item[1].get("ask") is False))  # the project type is first
    choices = {}
    for name, question in asked.items():
        offered = question.get("choices", [])
        if isinstance(offered, str):
            offered = yaml.safe_load(worker.jinja_env.from_string(offered).render(**known))
        values = list(offered.values()) if isinstance(offered, dict) else offered
        values = [value[1] if isinstance(value, list) else value for value in values]
        if values := [True, False] if question.get("type") == "bool" else values:
            choices[name] = values
    lists = frozenset(name for name in choices if asked[name].get("multiselect"))
    texts = tuple(n for n, question in asked.items() if question.get("type", "str") == "str" and n not in choices)
    return Template(folder, worker.template.config_data, choices, lists, texts)


def answer_sets(template: Template, seed: str) -> Iterator[Answers]:
    """Give every pair of choices for each choice of the first question, the project type; then the texts.

    Another seed gives another sample. Yes-or-no questions hide others, so there is a sample with their defaults and one
    with both answers. An answer set may contain answers that the template rejects: `start` leaves them out.
    Raises TemplateError.
    """
    first, draw = next(iter(template.choices)), Random(seed)
    for value in template.choices[first]:
        yield {first: value}
        with TemporaryDirectory() as folder:
            known = start(template, {first: value}, Path(folder, "child"))
        asked = [name for name in template.choices if name in known]
        for names in (asked, [name for name in asked if template.choices[name] != [True, False]]):
            seen = pairs(template, {first: value})
            while True:
                some = [random_answers(template, draw, names) | {first: value} for _ in range(CANDIDATES)]
                best = max(some, key=lambda one: len(pairs(template, one) - seen))
                if seen >= (found := pairs(template, best)):
                    break
                seen |= found
                yield best
    yield from ({name: text for name in template.texts} for text in TEXTS)


def random_answers(template: Template, draw: Random, names: Iterable[str]) -> Answers:
    """Give a random answer to each of these closed questions."""
    return {
        name: draw.sample(values, draw.randint(0, len(values))) if name in template.lists else draw.choice(values)
        for name in names for values in [template.choices[name]]
    }  # fmt: skip


def pairs(template: Template, answers: Answers) -> set[object]:
    """Return the pairs of choices that are made, each with whether it is taken or left out."""
    taken = [(name, one, one in answers[name] if name in template.lists else one == answers[name])
             for name in answers for one in template.choices[name]]  # fmt: skip
    return set(combinations(taken, 2))


def start(template: Template, answers: Answers, folder: Path) -> Answers:
    """Render a child without the answers that the template rejects or does not ask; return those that it records.

    A rejected list loses one entry after the other. Raises TemplateError.
    """
    answers = dict(answers)
    while True:
        try:
            render(template.folder, NAME | answers, folder)
        except TemplateError as error:
            if error.question not in answers:
                raise TemplateError(f"{error} ({name_of(answers, template)})") from error
            value = answers.pop(error.question)
            if isinstance(value, list) and len(value) > 1:
                answers[error.question] = value[1:]
            continue
        recorded = answers_of(folder)
        if answers.keys() <= recorded.keys():
            return recorded
        answers = {name: value for name, value in answers.items() if name in recorded}
        shutil.rmtree(folder)


def name_of(answers: Answers, template: Template) -> str:
    """Return the answers to closed questions, for people."""
    told = {name: value for name, value in answers.items() if name in template.choices and value != []}
    return " ".join(f"{n}={'+'.join(map(str, v)) if isinstance(v, list) else v}" for n, v in told.items())


def answers_of(child: Path, own: bool = True) -> Answers:
    """Return the answers that a child records, without Copier's `_src_path` and `_commit` unless `own` is False."""
    place = child / ANSWERS
    found = (yaml.safe_load(place.read_text(encoding="utf-8")) or {}) if place.exists() else {}
    return {name: value for name, value in found.items() if not own or not name.startswith("_")}


def files_of(folder: Path) -> set[str]:
    """Return the paths of the files and links in a folder, without git's own."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(folder)) for path in paths if path.relative_to(folder).parts[0] != ".git"}
