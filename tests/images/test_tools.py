"""The tools around the images, without an engine: catalogue, locks, plans, and what they say to bad input."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from image_tools import build_plan, check, pipelines, record
from image_tools.__main__ import main as image_tools_main
from image_tools.catalog import (
    FOLDER,
    ROOT,
    ImageError,
    chosen_rows,
    find_row,
    installed_pins,
    live_rows,
    read_catalog,
    read_lock,
)

from tests.ci.registry import Registry

from .parent import Parent

CATALOG = read_catalog()
ROWS = [row["name"] for row in live_rows(CATALOG)]
HASH = f"--hash=sha256:{'0' * 64}"


def changed_row(name: str, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a copy of the catalogue with one row changed, and that row."""
    catalog = copy.deepcopy(CATALOG)
    row = find_row(catalog, name)
    row.update(changes)
    return catalog, row


def test_every_row_agrees_with_its_lock() -> None:
    """The catalogue and the lock tell the same versions; the drivers are those of the CUDA version."""
    for name in ROWS:
        assert check.row_problems(CATALOG, find_row(CATALOG, name)) == [], name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cudnn", "1.2.3"),
        ("nccl", "1.2.3"),
        ("cuda", "12.6"),
        ("framework_version", "9.9"),
        ("driver_min", 470),
        ("driver_full", 470),
    ],
)
def test_a_row_that_lies_is_caught(key: str, value: Any) -> None:
    """A wrong value in any field that the lock or the catalogue can contradict is named."""
    for name in ROWS:
        catalog, row = changed_row(name, **{key: value})
        with pytest.raises(ImageError) as failure:
            check.check_rows(catalog, [row])
        assert key in str(failure.value), f"{name}: {key}={value!r}"
    catalog, row = changed_row("torch-cu13", platforms={"linux/amd64": None, "linux/arm64": {key: value}})
    with pytest.raises(ImageError, match=f"{key} says {value}"):  # of one platform alone
        check.check_rows(catalog, [row])


def test_two_rows_for_the_same_answers_are_caught() -> None:
    """Else children would move to the last of them. `pinned_minor` keeps a company's own row apart from upstream's."""
    catalog = copy.deepcopy(CATALOG)
    twin = copy.deepcopy(find_row(catalog, "plain-cu13")) | {"name": "plain-twin"}
    catalog["images"].append(twin)
    with pytest.raises(ImageError, match="plain-twin: plain-cu13 is for plain and driver 580 too: retire one"):
        check.check_rows(catalog, [])
    for apart in ({"state": "retired"}, {"pinned_minor": "twin"}):
        catalog["images"][-1] = twin | apart
        check.check_rows(catalog, [])


@pytest.mark.slow
def test_a_lock_names_what_changed_since_the_last_release(tmp_path: Path) -> None:
    """Since the last commit that changed VERSION, however often it was resolved again."""
    parent = Parent(tmp_path / "parent", Registry())
    source = parent.folder / "base-images" / "plain-cu13" / "requirements.in"
    source.write_text(source.read_text().replace("nvidia-nvshmem-cu13\n", ""))
    for _ in range(2):
        first, second, *_ = parent.works("lock", "--image", "plain-cu13").splitlines()
        assert first == "plain-cu13/requirements.lock: 1 changes since the last release"
        assert (second.split()[0], second.split()[-1]) == ("nvidia-nvshmem-cu13:", "gone")
        parent.commit()


def test_an_unknown_or_retired_image_is_not_built() -> None:
    catalog, row = changed_row("torch-cu12", state="retired")
    assert "torch-cu12" not in [one["name"] for one in live_rows(catalog)]
    for name, words in (("torch-cu11", "unknown image 'torch-cu11'"), (row["name"], "retired")):
        with pytest.raises(ImageError, match=words):
            chosen_rows(catalog, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("numpy==2.4.6\n", "'numpy==2.4.6' is not NAME==VERSION with a sha256 hash"),
        (f"numpy==2.4 {HASH[:-1]}\n", "is not NAME==VERSION"),
        ("# nothing\n", "the lock is empty"),
        (None, "no lock there"),
    ],
)
def test_a_lock_that_pins_nothing_is_one_clear_line(tmp_path: Path, text: str | None, message: str) -> None:
    """The message says what is wrong and how to make the lock."""
    path = tmp_path / "torch-cu13" / "requirements.lock"
    path.parent.mkdir()
    if text is not None:
        path.write_text(text)
    with pytest.raises(ImageError, match=message) as failure:
        read_lock(path)
    assert len(str(failure.value).splitlines()) == 1
    assert "make lock IMAGE=torch-cu13" in str(failure.value)


def test_a_lock_and_its_plan_hold_every_package_once_with_hashes(tmp_path: Path) -> None:
    """The layers' requirements together are the lock; the lower layers hold no framework."""
    for name in ROWS:
        text = (FOLDER / name / "requirements.lock").read_text()
        names = [line.split("==")[0] for line in text.splitlines() if "==" in line and not line.startswith(" ")]
        assert len(names) == len(set(names)), f"{name}: a package appears twice in the lock"
        assert "://" not in text, f"{name}: the lock names a host"
        build_plan.write_plan(CATALOG, find_row(CATALOG, name), tmp_path / name)
        lines = {}
        for layer in CATALOG["layers"]:
            for line in (tmp_path / name / layer["name"] / "requirements.txt").read_text().splitlines():
                lines.setdefault(line.split("==")[0], []).append((layer["name"], line))
        pins = installed_pins(CATALOG, name)
        assert lines.keys() == pins.keys(), name
        for package, places in lines.items():
            assert len(places) == 1, f"{name}: {package} {places}"
            assert "--hash=sha256:" in places[0][1], f"{name}: {package}"
        for framework in {"torch", "tensorflow"} & lines.keys():
            assert lines[framework][0][0] == "framework", name


def test_a_build_has_the_tag_that_children_expect_and_a_system_that_a_team_can_pin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OS_IMAGE", raising=False)
    for name in ROWS:
        for stage, end in (("runtime", ""), ("devel", "-devel")):
            options = build_plan.build_options(CATALOG, find_row(CATALOG, name), "registry.example.com/ml", stage)
            assert f"--tag=registry.example.com/ml/{name}:{CATALOG['release']}{end}" in options
            assert f"--build-arg=OS_IMAGE={CATALOG['operating_system']}" in options
    monkeypatch.setenv("OS_IMAGE", "ours/debian@sha256:1")
    assert "--build-arg=OS_IMAGE=ours/debian@sha256:1" in build_plan.build_options(
        CATALOG, find_row(CATALOG, ROWS[0]), "r"
    )


def test_no_engine_is_one_clear_line() -> None:
    """Without an engine, or without docker, `make images` says so and ends with 1."""
    no_engine = "no Docker Engine answers at unix:///nowhere/docker.sock"
    paths = f"{FOLDER}:{ROOT / 'runtime/src'}"
    environment = os.environ | {"DOCKER_HOST": "unix:///nowhere/docker.sock", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "image_tools", "build", "--image", "plain-cu13"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {no_engine if which('docker') else 'docker is not installed here'}")
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_broken_record_is_one_clear_line(tmp_path: Path) -> None:
    """A record that is not JSON is refused with the way out; writing keeps the other rows."""
    path = tmp_path / "released.json"
    path.write_text("{")
    with pytest.raises(ImageError, match="restore it from git"):
        record.read_record(path)
    path.write_text('{"a": {"tag": "1"}}')
    record.write_entry(path, "b", {"tag": "2"})
    assert json.loads(path.read_text()) == {"a": {"tag": "1"}, "b": {"tag": "2"}}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["released.json"]


def test_the_pipelines_have_the_rows_of_the_catalogue() -> None:
    """`make pipelines` would change none of the three."""
    for path, text in pipelines.written(CATALOG).items():
        assert text == (ROOT / path).read_text(), f"{path}: run `make pipelines`"
    catalog = copy.deepcopy(CATALOG)
    find_row(catalog, "torch-cu12")["name"] = "other-row"
    for path, text in pipelines.written(catalog).items():
        assert ("other-row" in text, "torch-cu12" in text) == (True, False), path


def bill(path: Path, **packages: str) -> Path:
    """Write a list of packages as syft does; the image itself is in it, with a digest that always differs."""
    root = {"SPDXID": "SPDXRef-DocumentRoot-Image-x", "name": "x", "versionInfo": str(path)}
    listed = [{"SPDXID": f"SPDXRef-{n}", "name": n, "versionInfo": v} for n, v in packages.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"packages": [root, *listed]}))
    return path


@pytest.mark.slow
def test_records_that_ci_archived_are_adopted(tmp_path: Path) -> None:
    """The record gets the entries and the lists of packages of all rows in the folder, and keeps the others."""
    parent = Parent(tmp_path / "parent", Registry())
    record.write_entry(parent.record, "plain-cu12", {"tag": "old"})
    made = tmp_path / "archive" / "plain-cu13"
    entry = {"tag": "2026.11.21", "digest": "sha256:aa", "sbom": "sbom/x.json"}
    bill(made / "sbom" / "x.json", bash="5.2")
    record.write_entry(made / "released.json", "plain-cu13", entry)
    parent.works("records", str(tmp_path / "archive"))
    assert record.read_record(parent.record) == {"plain-cu12": {"tag": "old"}, "plain-cu13": entry}
    assert (parent.record.parent / "sbom" / "x.json").exists()
    parent.refuses("holds no */released.json", "records", str(made))


MISTAKES = {
    "records": "which records? make records FROM=folder",
    "records .": ".: holds no */released.json",  # but the repository's record
    "smoke-digest": "which image? IMAGE=name: base-images/catalog.yml has ",
    "check --registry=https://example.com/ml": "https://example.com/ml: expected a registry without https://",
    "promote --image=plain-cu13 --digest=latest": "DIGEST=latest: expected sha256: and 64 small hexadecimal digits",
    f"verify --image=plain-cu13 --digest=sha256:{'A' * 64}": f"DIGEST=sha256:{'A' * 64}: expected sha256: and 64 small",
}


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_in_a_command_is_one_line(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["image_tools", *typed.split()])
    assert image_tools_main() == 1
    assert capsys.readouterr().err.startswith(f"error: {MISTAKES[typed]}")
