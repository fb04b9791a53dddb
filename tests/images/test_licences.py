"""Each package of the images has a licence that somebody looked at, and what the page says of NVIDIA's agrees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from image_tools import licences
from image_tools.catalog import ROOT, ImageError, live_rows, lock_path, read_lock

from .conftest import CATALOG, Built

DECLARED = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.name.lower().replace('_', '-'): d.metadata.get('License-Expression') or '' "
    "for d in m.distributions()}))"
)


NAMES = [row["name"] for row in live_rows(CATALOG)]


def test_every_package_has_a_licence() -> None:
    for name in NAMES:
        assert licences.licence_problems(read_lock(lock_path(name))) == [], name


def test_a_package_that_nobody_looked_at_is_named() -> None:
    [problem] = licences.licence_problems(["numpy", "new-package"])
    assert problem.startswith("new-package has no licence in base-images/licences.yml")


def test_no_entry_is_idle() -> None:
    """An entry for a package that no image holds any more is a licence that nobody reads again."""
    held = {name for row in live_rows(CATALOG) for name in read_lock(lock_path(row["name"]))}
    table = licences.read_licences()
    used = {id(licences.licence_of(name, table)) for name in held}
    assert [one["licence"] for one in table if id(one) not in used] == []
    named = {name for one in table for name in one["packages"] if not name.endswith("*")}
    assert sorted(named - held) == []


@pytest.mark.parametrize("text", ["- {licence: MIT}", "- {licence: MIT, terms: any, packages: [a]}", "{", "3"])
def test_a_broken_table_is_one_clear_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "licences.yml").write_text(text)
    with pytest.raises(ImageError) as failure:
        licences.read_licences(tmp_path / "licences.yml")
    assert len(str(failure.value).splitlines()) == 1


def test_the_page_names_each_of_nvidias_agreements() -> None:
    page = (ROOT / "docs" / "licences.md").read_text()
    for one in licences.read_licences():
        if one["terms"] == "nvidia":
            assert f"`{one['licence']}`" in page, one["licence"]


@pytest.mark.images
def test_the_table_says_what_the_wheels_declare(image: Built) -> None:
    """Where a wheel declares one licence of SPDX's list; of several, and of NVIDIA's own, a person read the text."""
    table = licences.read_licences()
    told = {name: text for name, text in json.loads(image.python(DECLARED)).items() if text}
    single = {name: text for name, text in told.items() if " " not in text and not text.startswith("LicenseRef-")}
    assert single, f"{image.name}: no wheel declares a licence"
    entries = {name: licences.licence_of(name, table) for name in single}
    assert {name: one["licence"] for name, one in entries.items() if one} == single, image.name
