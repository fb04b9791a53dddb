"""A field of the catalogue that has another form than it should is named in one line, whichever it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from image_tools.catalog import ImageError, read_catalog

from .conftest import CATALOG

ROWS = CATALOG["images"]
TRIM = {"packages": ["torch"], "remove": ["a"], "reason": "r"}
# Case: what is wrong with the catalogue, and the place that the message names.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"realese": "2026.11"}, "'realese' was unexpected"),
    "an unknown field of a row": ({"images": [{**ROWS[0], "driver_mim": 580}]}, "'driver_mim' was unexpected"),
    "a package of Debian": ({"images": [{**ROWS[0], "apt": ["ffmpeg; rm"]}]}, "$.images[0].apt[0]: "),
    "a trim of another folder": ({"trims": [{**TRIM, "remove": ["/etc/passwd"]}]}, "'/etc/passwd' does not"),
    "a trim that leaves its folder": ({"trims": [{**TRIM, "remove": ["a/../../x"]}]}, "'a/../../x' does not"),
    "a date without quotes": ({"images": [{**ROWS[0], "end_of_life": 2028}]}, "end_of_life: expected a date in quotes"),
    "many": (dict.fromkeys(("release", "python", "frameworks", "layers")), "$.frameworks: "),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_form_is_named_in_one_line(case: str, tmp_path: Path) -> None:
    changed, phrase = WRONG[case]
    path = tmp_path / "catalog.yml"
    path.write_text(json.dumps(CATALOG | changed))
    with pytest.raises(ImageError) as failure:
        read_catalog(path)
    assert len(str(failure.value).splitlines()) == 1
    assert phrase in str(failure.value), f"{case}: {failure.value}"


def test_a_mistake_is_named_with_its_line_or_key(tmp_path: Path) -> None:
    for name, text, words in (
        ("catalog.yml", 'images:\n  - name: "a"\n   state: "b"\n', "cannot read it: .* line 3, column 4"),
        ("company.yml", "name: North: light\n", "line 1, column 12"),
        ("company.yml", "updaets: x\n", "'updates' is a required"),
        ("company.yml", "ci: gitlab\n", "in brackets"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ImageError, match=words):
            read_catalog(tmp_path / name)
