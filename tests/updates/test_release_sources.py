"""What the release check refuses before it compares: files of the template that cannot be read, or mean nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import release_check
from releasekit.sources import faults

from tests.updates.copiers import copier_at
from tests.updates.release_cases import GOOD, LISTS_OF_FAMILY, images
from tests.updates.tiny import Template, write_files

MARKERS = "<<<<<<< HEAD\n1.0.0\n=======\n1.1.0\n>>>>>>> theirs\n"
WRONG = {
    "no version": ("VERSION", None, "VERSION cannot be read: "),
    "an empty version": ("VERSION", "", "VERSION cannot be read: "),
    "a version in words": ("VERSION", "soon\n", "VERSION cannot be read: "),
    "conflict markers in the version": ("VERSION", MARKERS, "VERSION cannot be read: "),
    "no settings": ("copier.yml", None, "copier.yml cannot be read: "),
    "conflict markers in the settings": ("copier.yml", GOOD["copier.yml"] + MARKERS, "copier.yml cannot be read: "),
    "an include of nothing": (
        "copier.yml", GOOD["copier.yml"] + "---\n!include nowhere.yml\n", "includes nowhere.yml, which is not there"
    ),
    "an include of another place": (
        "copier.yml", GOOD["copier.yml"] + "---\n!include ../*/copier.yml\n", "copier.yml cannot be read: "
    ),
    "a question twice": (
        "copier.yml", GOOD["copier.yml"] + "gpu: {type: bool, default: false}\n", "copier.yml has gpu twice"
    ),
    "entries that are not a list": ("templates/retired.yml", "kind: file\n", "retired.yml cannot be read: it is not a"),
    "an entry that is a word": ("templates/retired.yml", "- scripts/x\n", "retired.yml cannot be read: it is not a"),
    "entries that cannot be read": ("templates/retired.yml", "- {kind: file\n", "templates/retired.yml cannot be read"),
    "an entry of no version": (
        "templates/retired.yml", "- {kind: file, name: x, version: next}\n", "templates/retired.yml cannot be read"
    ),
    "an owner that nobody is": (
        "templates/ownership.yml", "- {path: x, owner: manged}\n", "templates/ownership.yml has the owner manged for x"
    ),
    "a word that means nothing": (
        "templates/ownership.yml", "- {path: x, owner: seed, type: [a]}\n", "templates/ownership.yml has type for x"
    ),
    "no list of images": ("base-images/catalog.yml", "images: []\n", "base-images/catalog.yml cannot be read"),
    "a row twice": (
        "base-images/catalog.yml", images(one="supported").replace("]", ", ") + images(one="supported")[9:], "one twice"
    ),
    "a row without its driver": (
        "base-images/catalog.yml", images(one="supported").replace("580", "new"), "has the driver_min 'new' in the row"
    ),
    "a digest that is none": (
        "base-images/released.json", '{"one": {"digest": "sha256:abc"}}', "has the digest sha256:abc for one"
    ),
}  # fmt: skip


def with_file(folder: Path, name: str, text: str | None) -> Path:
    """Write GOOD with one other file; None leaves it out."""
    write_files(folder, {path: said for path, said in (GOOD | {name: text}).items() if said is not None})
    return folder


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_means_nothing_or_something_else_is_named(case: str, tmp_path: Path) -> None:
    name, text, reason = WRONG[case]
    told = list(faults(with_file(tmp_path / "template", name, text)))
    assert [line for line in told if reason in line], told
    assert all("\n" not in line and str(tmp_path) not in line for line in told), told


@pytest.mark.parametrize("name", ["templates/retired.yml", "templates/ownership.yml", "base-images/catalog.yml"])
def test_a_file_that_a_family_does_not_have_is_none_of_its_faults(name: str, tmp_path: Path) -> None:
    assert list(faults(with_file(tmp_path, name, None))) == []


def test_a_family_says_what_it_means(tmp_path: Path) -> None:
    write_files(tmp_path, GOOD | {"templates/ownership.yml": LISTS_OF_FAMILY, "base-images/released.json": "{}\n"})
    assert list(faults(tmp_path)) == []


def test_nothing_is_compared_where_a_file_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copier = copier_at(tmp_path / "copier-home")
    for name, value in copier.environment().items():
        monkeypatch.setenv(name, value)
    template = Template(tmp_path / "template", copier)
    template.release("v1.0.0", GOOD, GOOD["copier.yml"])
    (template.path / "VERSION").write_text(MARKERS)
    (template.path / "copier.yml").write_text("a: [\n")
    monkeypatch.setattr(sys, "argv", ["release_check", "--repository", str(template.path)])
    assert release_check.main() == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("release-check: refused: VERSION cannot be read: ")
    assert told[1].startswith("release-check: refused: copier.yml cannot be read: ")
    assert told[2:] == ["release-check: refused, and nothing was compared"]
