"""Parts of the release check by themselves: answers that are tried, and what two renderings are compared for."""

from __future__ import annotations

from pathlib import Path

import pytest
from releasekit import compared, images, questions
from releasekit.check import Check

from tests.updates.release_cases import GOOD, retire
from tests.updates.tiny import write_files

WORDS = """
words: {type: yaml, when: false, default: "{% include 'words.yml' %}"}
title: {type: str, default: x, validator: "{% if title in words %}no{% endif %}"}
"""
ADOPTED = "adopted: {type: yaml, default: '{}', validator: \"{% if adopted.kept is defined %}no{% endif %}\"}\n"


def two(folder: Path, before: dict[str, str], after: dict[str, str]) -> tuple[Path, Path]:
    """Write two templates and return them."""
    for name, files in {"old": before, "new": after}.items():
        write_files(folder / name, files)
    return folder / "old", folder / "new"


def narrowed(folder: Path, before: dict[str, str], after: dict[str, str]) -> list[tuple[str, object]]:
    """Return question and answer of what only the first of two templates takes."""
    return [found[:2] for found in questions.narrowed(*two(folder, before, after))]


@pytest.mark.parametrize(("words", "lost"), [("[one, ranker]", [("title", "ranker")]), ("[]", []), ("[one]", [])])
def test_words_that_a_list_newly_refuses_are_tried(tmp_path: Path, words: str, lost: list[tuple[str, str]]) -> None:
    before = {"copier.yml": WORDS, "words.yml": "[one]\n"}
    assert narrowed(tmp_path, before, before | {"words.yml": f"{words}\n"}) == lost


def test_answers_that_are_no_texts_are_tried(tmp_path: Path) -> None:
    wide = ADOPTED.replace("adopted.kept is defined", "adopted == 3")
    [(name, answer)] = narrowed(tmp_path, {"copier.yml": wide}, {"copier.yml": ADOPTED})
    assert name == "adopted"
    assert "kept" in answer  # type: ignore[operator]


def check_of(folder: Path, **more: str) -> Check:
    """Return the check of GOOD against itself with other files."""
    named = {"base-images/catalog.yml": more.get("catalogue", GOOD["base-images/catalog.yml"])}
    return Check(*two(folder, GOOD, GOOD | named | {"templates/retired.yml": more.get("retired", "[]\n")}), "1.0.0")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (b"x\n", b"x", "requirements.lock (a) has no newline at its end any more"),
        (b"one==1 \\\n --hash=x\n", b"# nothing\n", "requirements.lock (a) is a lock that holds nothing any more"),
        (b"x", b"y", ""),
        (b"one==1\n", b"two==2\n", ""),
        (b"x\n", b"", "requirements.lock (a) is a lock that holds nothing any more"),
    ],
)
def test_what_a_file_has_lost_is_told(tmp_path: Path, before: bytes, after: bytes, reason: str) -> None:
    check = check_of(tmp_path)
    compared.check_text(check, "requirements.lock (a)", before, after)
    assert check.refused == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("image", "retired", "reason"),
    [
        ("one", "[]\n", ""),
        ("two", "[]\n", "children with a go from the image one to two unasked"),
        ("two", retire("image", "one"), ""),
    ],
)
def test_another_image_is_never_given_unasked(tmp_path: Path, image: str, retired: str, reason: str) -> None:
    check = check_of(tmp_path, retired=retired)
    for folder, name in {"before": "one", "after": image}.items():
        write_files(tmp_path / folder, {"Dockerfile": f"FROM registry.example.com/ml/{name}:2026.11\n"})
    images.check_image_of(check, "a", tmp_path / "before", tmp_path / "after")
    assert [told[: len(reason)] for told in check.refused] == ([reason] if reason else [])
