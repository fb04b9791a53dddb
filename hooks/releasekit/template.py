"""The template as Copier reads it, the answer sets that are compared, and the children that they give."""

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from allpairspy import AllPairs
from copier import Settings, run_copy
from gpu_repo_runtime.update.render import ANSWERS

Answers = dict[str, Any]
NAME = {"project_name": "topic-finder"}
TEXTS = (  # free-text answers that existing children may have; each is given to every question that accepts it
    "x1", "Find topics: \"5 × 3\" & 'more' \\n é", "localhost:5000/a_b/c-d", "nvidia.com/mig-1g.10gb", "z" * 40,
)  # fmt: skip


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


def answer_sets(template: Template) -> Iterator[Answers]:
    """Give every pair of choices for each choice of the first question, the project type; then the texts.

    Yes-or-no questions hide others, so there is a sample with their defaults and one with both answers; each entry of a
    list is such a question. An answer set may contain answers that the template rejects or does not ask: `start` leaves
    them out. Raises TemplateError.
    """
    first, *others = template.choices
    for value in template.choices[first]:
        yield {first: value}
        with TemporaryDirectory() as folder:
            asked = start(template, {first: value}, Path(folder, "child"))
        every = [factor for name in others if name in asked for factor in factors(template, name)]
        calm = [factor for factor in every if [*factor[0].values()] != [True]]
        for some in [every] if calm == every else [calm, every]:
            rows = AllPairs(some) if len(some) > 1 else product(*some)
            yield from ({first: value} | merged(row) for row in rows if row)
    yield from ({name: text for name in template.texts} for text in TEXTS)


def factors(template: Template, name: str) -> list[list[Answers]]:
    """Return the alternatives of a question; each entry of a list is a separate question with yes or no."""
    values = template.choices[name]
    if name in template.lists:
        return [[{name: []}, {name: [value]}] for value in values]
    return [[{name: value} for value in values]]


def random_answers(template: Template, count: int, seed: str) -> Iterator[Answers]:
    """Give `count` combinations of all choices, the same for the same seed."""
    draw = Random(seed)
    for _ in range(count):
        yield {
            name: draw.sample(values, draw.randint(0, len(values))) if name in template.lists else draw.choice(values)
            for name, values in template.choices.items()
        }


def merged(row: Iterable[Answers]) -> Answers:
    """Return the answers of a row of alternatives; the entries of a list are joined."""
    answers: Answers = {}
    for name, value in (item for alternative in row for item in alternative.items()):
        answers[name] = answers.get(name, []) + value if isinstance(value, list) else value
    return answers


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
