"""Each package of the images has a licence that somebody looked at, and what the page says of NVIDIA's agrees."""

from __future__ import annotations

import json

import pytest
import yaml
from image_tools.catalog import FOLDER, live_rows, matches
from image_tools.check import unread_licences

from .conftest import CATALOG, Built

DECLARED = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.name.lower().replace('_', '-'): d.metadata.get('License-Expression') or '' "
    "for d in m.distributions()}))"
)


TABLE = yaml.safe_load((FOLDER / "licences.yml").read_text())


def licence_of(package: str) -> str:
    """Return the licence of a package: that of the first list which names it, "" where none does."""
    return next((one["licence"] for one in TABLE if matches(package, one["packages"])), "")


def test_every_package_has_a_licence_that_somebody_read() -> None:
    assert unread_licences(live_rows(CATALOG)) == []
    assert {one["terms"] for one in TABLE} == {"free", "nvidia"}


@pytest.mark.images
def test_the_table_says_what_the_wheels_declare(image: Built) -> None:
    """Where a wheel declares one licence of SPDX's list; of several, and of NVIDIA's own, a person read the text."""
    told = {name: text for name, text in json.loads(image.python(DECLARED)).items() if text}
    single = {name: text for name, text in told.items() if " " not in text and not text.startswith("LicenseRef-")}
    assert single, f"{image.name}: no wheel declares a licence"
    assert {name: licence_of(name) for name in single} == single, image.name
