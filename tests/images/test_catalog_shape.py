"""A field of the catalogue that has another form than it should is named in one line, whichever it is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from image_tools import check
from image_tools.catalog import ImageError, read_catalog

from .conftest import CATALOG

WRONG: tuple[Any, ...] = (None, "", 7, [], {})
# Of these, what is right: nothing need be trimmed, and some fields are numbers.
RIGHT = {"trims": [[]], "end_of_life_warning_days": [7], "max_layers": [7]}
ROW = "torch213-cu13"


def refused(catalog: dict[str, Any], what: str, phrase: str = "") -> None:
    """Assert that `make check-catalog` refuses a catalogue in one line."""
    rows = [row for row in CATALOG["images"] if row["name"] == ROW]
    if isinstance(given := catalog.get("images"), list):
        rows = [row for row in given if isinstance(row, dict) and row.get("name") == ROW]
    try:
        check.check_rows(catalog, rows)
    except ImageError as refusal:
        error = str(refusal)
    else:
        pytest.fail(f"{what}: not refused")
    assert len(error.splitlines()) == 1, what
    assert phrase in error, f"{what}: {error}"


def changed(key: str, value: Any, row: bool) -> dict[str, Any]:
    """Return a copy of the catalogue with one field changed, of the row or of the whole."""
    catalog: dict[str, Any] = copy.deepcopy(CATALOG)
    place = next(one for one in catalog["images"] if one["name"] == ROW) if row else catalog
    place[key] = value
    return catalog


def test_a_field_of_the_catalogue_has_its_form() -> None:
    for key in {*CATALOG, "realese"}:
        for value in WRONG:
            if value not in RIGHT.get(key, []) and value != CATALOG.get(key):
                refused(changed(key, value, row=False), f"{key} is {value!r}", key if key != "images" else "")
        if key in CATALOG and key != "images":
            refused({name: told for name, told in CATALOG.items() if name != key}, f"without {key}", key)


def test_a_field_of_a_row_has_its_form() -> None:
    row = next(row for row in CATALOG["images"] if row["name"] == ROW)
    for key in {*row, "driver_mim"} - {"name"}:
        for value in WRONG:
            if value not in RIGHT.get(key, []):
                refused(changed(key, value, row=True), f"{key} is {value!r}", key)


TRIMS = {
    "no reason": ({"packages": ["torch"], "remove": ["a"]}, "'reason' is a required property"),
    "nothing to do": ({"packages": ["torch"], "reason": "r"}, "trims, entry"),
    "an absolute path": ({"packages": ["torch"], "remove": ["/etc/passwd"], "reason": "r"}, "'/etc/passwd' does not"),
    "a way out": ({"packages": ["torch"], "remove": ["a/../../x"], "reason": "r"}, "'a/../../x' does not"),
    "no such image": ({"packages": ["torch"], "images": ["x"], "remove": ["a"], "reason": "r"}, "no image 'x'"),
    "no such package": ({"packages": ["torhc"], "remove": ["a"], "reason": "r"}, "no lock has a package 'torhc'"),
}


@pytest.mark.parametrize("case", TRIMS)
def test_a_trim_that_cannot_be_meant_is_named(case: str) -> None:
    """A misspelt package or image takes nothing out, and the image grows in silence."""
    trim, phrase = TRIMS[case]
    refused(CATALOG | {"trims": [*CATALOG["trims"], trim]}, case, phrase)


@pytest.mark.parametrize(
    "text", ["images: [text]", "images: [null]", "images: [{name: x}]", "images: [{state: supported}]"]
)
def test_a_row_without_a_name_or_a_state_is_refused_where_the_file_is_read(tmp_path: Path, text: str) -> None:
    """Every command reads it, and some look for the rows that are still built before anything is checked."""
    path = tmp_path / "catalog.yml"
    path.write_text(text)
    with pytest.raises(ImageError, match="images, entry 1: expected a row with a name and a state"):
        read_catalog(path)


def test_what_is_no_row_and_many_mistakes_are_one_line() -> None:
    for row in ("text", None, 7):
        refused(CATALOG | {"images": [*CATALOG["images"], row]}, f"a row that is {row!r}", "images, entry 7")
    catalog = CATALOG | dict.fromkeys(("release", "python", "gpus", "layers", "max_layers", "frameworks"), None)
    refused(catalog, "many", "and 1 more")
