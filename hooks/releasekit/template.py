"""The template as Copier reads it, the answer sets that are compared, and the children that they give."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from allpairspy import AllPairs
from copier import Settings, run_copy
from git_calls import call, git

Answers = dict[str, Any]
NAME = {"project_name": "topic-finder"}
TEXTS = (  # free-text answers that existing children may have; each is given to every question that accepts it
    "a", "x1", "topic_finder", "a-b-c", "Find topics: \"5 × 3\" & 'more' \\n é", "localhost:5000/a_b/c-d",
    "registry.example.com/" + "a" * 179, "nvidia.com/mig-1g.10gb", "z" * 40, "z" * 200,
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


def render(template: Path, answers: Answers, folder: Path, pretend: bool = False) -> Any:
    """Render one child, with the answers that `folder` has already; return Copier's worker. Raises TemplateError."""
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            settings = Settings()  # not those of the person who runs this
            return run_copy(str(template), folder, data=answers, defaults=True, overwrite=True, pretend=pretend,
                            settings=settings)  # fmt: skip
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
        if values := [True, False] if question.get("type") == "bool" else values_of(offered):
            choices[name] = values
    lists = frozenset(name for name in choices if asked[name].get("multiselect"))
    texts = tuple(n for n, question in asked.items() if question.get("type", "str") == "str" and n not in choices)
    return Template(folder, worker.template.config_data, choices, lists, texts)


def values_of(offered: dict[str, Any] | list[Any]) -> list[Any]:
    """Return the values of a question's choices, in any of the forms that Copier reads."""
    values = list(offered.values()) if isinstance(offered, dict) else offered
    values = [value[1] if isinstance(value, list) and len(value) == 2 else value for value in values]
    return [value["value"] if isinstance(value, dict) else value for value in values]


def answer_sets(template: Template, whole: bool = False) -> Iterator[Answers]:
    """Give every pair of choices for each project type and each answer to a yes-or-no question, then the texts.

    With `whole`: every combination of choices. An answer set may contain answers that the template rejects or does not
    ask: `start` leaves them out. Raises TemplateError.
    """
    leading = [name for n, name in enumerate(template.choices) if n == 0 or template.choices[name] == [True, False]]
    seen: list[Answers] = []
    for values in product(*(template.choices[name] for name in leading)):
        with TemporaryDirectory() as folder:
            recorded = start(template, dict(zip(leading, values, strict=True)), Path(folder, "child"))
        fixed = {name: recorded[name] for name in leading if name in recorded}
        if fixed not in seen:
            seen.append(fixed)
            yield fixed
            free = [name for name in template.choices if name in recorded and name not in fixed]
            factors = [factor for name in free for factor in factors_of(template, name)]
            rows = product(*factors) if whole or len(factors) < 2 else AllPairs(factors)
            yield from (fixed | merged(row) for row in rows if row)
    yield from ({name: text for name in template.texts} for text in TEXTS)


def factors_of(template: Template, name: str) -> list[list[Answers]]:
    """Return the alternatives of a question; each entry of a list is a yes-or-no question."""
    if name in template.lists:
        return [[{name: []}, {name: [value]}] for value in template.choices[name]]
    return [[{name: value} for value in template.choices[name]]]


def merged(row: Any) -> Answers:
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


def read_answers(child: Path) -> Answers:
    """Return all that a child records, with Copier's `_src_path` and `_commit`."""
    place = child / ".copier-answers.yml"
    return (yaml.safe_load(place.read_text(encoding="utf-8")) or {}) if place.exists() else {}


def answers_of(child: Path) -> Answers:
    """Return the answers that a child records."""
    return {name: value for name, value in read_answers(child).items() if not name.startswith("_")}


def image_states(template: Path) -> dict[str, str]:
    """Return the state of each image in the catalogue."""
    place = template / "base-images" / "catalog.yml"
    rows: list[dict[str, Any]] = yaml.safe_load(place.read_text(encoding="utf-8"))["images"] if place.exists() else []
    return {row["name"]: row["state"] for row in rows}


def files_of(folder: Path) -> set[str]:
    """Return the paths of the files and links in a folder, without git's own."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(folder)) for path in paths if path.relative_to(folder).parts[0] != ".git"}


def export(repository: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit or tree into `folder`."""
    with tarfile.open(fileobj=BytesIO(call(repository, "archive", commit).stdout)) as archive:
        archive.extractall(folder, filter="tar")


def work_tree(repository: Path) -> str:
    """Return the git tree of the files as they are, committed or not; the index stays as it is."""
    with TemporaryDirectory() as folder:
        aside = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        git(repository, "read-tree", "HEAD", more=aside)
        git(repository, "add", "--all", more=aside)
        return git(repository, "write-tree", more=aside).strip()
