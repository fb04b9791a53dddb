"""My CSV and my scikit-learn model as my first batch job: docs/tutorials/first-batch-job.md. In order."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.journeys.child import Child

TYPE = "batch"
PAGE = "tutorials/first-batch-job.md"
BAD = {"5000007": "flavanoids", "5001234": "proline"}  # ids and columns


def table(child: Child) -> dict[int, dict[str, str]]:
    with child.path("wines.csv").open(newline="") as file:
        return {int(row["id"]): row for row in csv.DictReader(file)}


def parts(child: Child, folder: str) -> dict[str, int]:
    """Return the finished parts and when each was written."""
    return {part.name: part.stat().st_mtime_ns for part in child.path(f"build/grapes/{folder}").glob("*.parquet")}


def result(child: Child) -> pa.Table:
    return pq.read_table(child.path("build/grapes/data"))


def test_my_packages_are_installed_and_my_model_is_trained(child: Child) -> None:
    child.follow("1. Create the repository")
    child.follow("2. Bring your table and your model")


def test_the_starting_tests_are_green_with_my_model(child: Child) -> None:
    child.follow("3. Write model.py")


def test_a_killed_job_is_finished_by_the_same_command(child: Child) -> None:
    [command] = [block.text for block in child.blocks if block.section == "4. Run the job"]
    job = child.begin(command, subprocess.PIPE)
    while len(parts(child, "_parts")) < 4:
        if job.poll() is not None:
            pytest.fail(f"$ {command}{job.communicate()[0]}\nexit code {job.returncode}, before I killed it", False)
        with suppress(subprocess.TimeoutExpired):
            job.wait(0.005)
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    before = parts(child, "_parts")
    child.follow("4. Run the job")
    kept = before.items() & parts(child, "data").items()
    assert len(kept) >= len(before) - 2, f"{len(before)} parts were finished, and {len(before) - len(kept)} made again"


def test_each_good_row_has_its_own_prediction_once_and_its_id_is_an_integer(child: Child) -> None:
    known = {number: int(row["label"]) for number, row in table(child).items() if str(number) not in BAD}
    found = result(child)
    rows = found.to_pylist()
    assert found.schema.field("id").type == pa.int64(), found.schema
    assert len(rows) == len(known) == 19_998
    assert {row["id"]: row["grape"] for row in rows} == known


def test_the_predictions_join_the_table_on_the_id(child: Child) -> None:
    child.follow("5. Join the predictions")


def test_the_bad_rows_are_found_in_the_table(child: Child) -> None:
    output = child.follow("6. Find the bad rows")
    for number, column in BAD.items():
        assert number in output, f"no wine {number} in:\n{output}"
        assert f"{column}: " in output, f"no reason with {column} in:\n{output}"


def test_a_table_that_is_written_otherwise_names_the_option(child: Child) -> None:
    child.sh("tr , ';' <wines.csv >semicolons.csv && sed 's/label/grape/' wines.csv >named.csv")
    child.refused("scripts/run --output build/other --input semicolons.csv", "--delimiter ';'")
    child.sh("sed '1s/proline/Prolin-Größe/' wines.csv | iconv -f utf-8 -t latin1 >german.csv")
    child.refused("scripts/run --output build/other --input german.csv --keep '*'", "--encoding names another")
    child.refused("scripts/run --output build/other --input named.csv --keep grape", "omit it from --keep")
