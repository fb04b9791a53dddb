"""A template as Copier reads it, and the children that it renders."""

from __future__ import annotations

import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from copier import Settings, run_copy

Answers = dict[str, Any]
NAME = {"project_name": "topic-finder"}
REFUSED = "Validation error for question "


class TemplateError(Exception):
    """Copier cannot use the template; the message is its first line."""


@dataclass(frozen=True)
class Template:
    """What copier.yml says: settings (without their underscore), questions, and the values of closed questions."""

    folder: Path
    settings: dict[str, Any]
    questions: dict[str, dict[str, Any]]
    choices: dict[str, list[Any]]


def render(
    template: Path, answers: Answers, folder: Path, pretend: bool = False, quiet: bool = True, trusted: bool = False
) -> Any:
    """Render one child and return Copier's worker; a `trusted` template may have tasks, which do not run.

    Raises TemplateError with the reason.
    """
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            return run_copy(
                str(template),
                folder,
                data=NAME | answers,
                defaults=True,
                overwrite=True,
                pretend=pretend,
                quiet=quiet,
                unsafe=trusted,
                skip_tasks=trusted,
                settings=Settings(),  # not those of the person who runs this
            )
    except Exception as error:  # a template can fail with any error
        raise TemplateError((str(error).strip() or type(error).__name__).splitlines()[0]) from error


def refusal(template: Path, answers: Answers, quiet: bool = True) -> str:
    """Return why Copier rejects these answers, "" if it takes them."""
    with TemporaryDirectory() as folder:
        try:
            render(template, answers, Path(folder, "child"), pretend=True, quiet=quiet)
        except TemplateError as error:
            return str(error)
    return ""


def read_template(folder: Path) -> Template:
    """Return the template in a folder. Raises TemplateError if no child can start with the defaults."""
    with TemporaryDirectory() as place:
        worker = render(folder, {}, Path(place, "child"), pretend=True, trusted=True)
    questions = {
        name: question | ({"secret": True} if name in worker.template.secret_questions else {})
        for name, question in worker.template.questions_data.items()
        if question.get("when") is not False
    }
    known = worker.answers.combined
    choices = {}
    for name, question in questions.items():
        offered = question.get("choices", [])
        if isinstance(offered, str):
            offered = yaml.safe_load(worker.jinja_env.from_string(offered).render(**known))
        if values := [True, False] if question.get("type") == "bool" else values_of(offered):
            choices[name] = values
    return Template(folder, worker.template.config_data, questions, choices)


def values_of(offered: dict[str, Any] | list[Any]) -> list[Any]:
    """Return the values of a question's choices, in any of the forms that Copier reads."""
    values = list(offered.values()) if isinstance(offered, dict) else offered
    values = [value[1] if isinstance(value, list) and len(value) == 2 else value for value in values]
    return [value["value"] if isinstance(value, dict) else value for value in values]


def answers_of(child: Path) -> Answers:
    """Return the answers that a child records, with Copier's `_src_path` and `_commit`."""
    place = child / ".copier-answers.yml"
    return (yaml.safe_load(place.read_text(encoding="utf-8")) or {}) if place.exists() else {}


def files_of(folder: Path) -> set[str]:
    """Return the paths of the files and links in a folder, without git's own."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(folder)) for path in paths if path.relative_to(folder).parts[0] != ".git"}
