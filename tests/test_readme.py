"""The README says what the catalogue says."""

from __future__ import annotations

import re

import yaml

from tests.conftest import ROOT

NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow"}


def test_the_table_of_images_is_the_catalogue():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"(?m)^\| ([a-z]+-cu\d+) \| (.*) \|$", text))
    rows = {r["name"]: r for r in yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text())["images"]}
    assert table.keys() == {name for name, row in rows.items() if row["state"] != "retired"}, "README.md: images"
    for name, cells in table.items():
        row = rows[name]
        framework, cuda, driver = cells.split(" | ")
        assert (cuda, driver) == (row["cuda"], str(row["driver_min"])), f"README.md: {name}: {cells}"
        if row["framework"] in NAMES:
            version = ".".join(row["framework_version"].split(".")[:2])
            assert framework == f"{NAMES[row['framework']]} {version}", f"README.md: {name}: {framework}"


def test_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not (ROOT / link).exists()]
    assert not missing, f"README.md: {missing}"
