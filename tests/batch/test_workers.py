"""Several workers on one machine, each with its share of the cores, and what a container's limit does to threads."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from types import ModuleType

import pytest

from tests.batch.conftest import PACKAGE, texts, write_jsonl
from tests.sampling import sampled

MODEL = """
import os


class Model:
    examples = ("one",)
    tolerance = 0.0

    def load(self, device):
        pass

    def predict(self, batch):
        names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        return [{"threads": " ".join(os.environ.get(name, "-") for name in names)} for _ in batch]
"""


@pytest.fixture
def cores(monkeypatch) -> ModuleType:
    """Return the module, as it is where nobody has asked for a number of threads."""
    for name in [name for name in os.environ if name.endswith("_THREADS")]:
        monkeypatch.delenv(name)
    return importlib.reload(importlib.import_module("gpu_repo_runtime.cores"))


@pytest.mark.slow
@pytest.mark.parametrize("workers", sampled([2, 3], [2]))
def test_workers_share_the_cores(made, cores, tmp_path, out, workers):
    lines = write_jsonl(tmp_path / "in.jsonl", texts(40))
    process = made(MODEL).start("--input", lines, "--output", out.path, "--part-rows", 10, "--workers", workers)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    share = max(1, cores.usable_cores() // workers)
    assert {row["threads"] for row in out.rows()} == {f"{share} {share} {share}"}


LIMITS = [("150000 100000", 2), ("20000 100000", 1), ("max 100000", 16), ("50000\n50000\n", 1), ("-1\n100000\n", 16)]


@pytest.mark.parametrize(("limit", "usable"), LIMITS)
def test_a_limit_of_the_container(cores, monkeypatch, tmp_path, limit, usable):
    """Control groups of version 2 have one file with two numbers, those of version 1 have two files."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    two = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
    (tmp_path / "cpu").mkdir()
    for name, text in zip(two, limit.split("\n"), strict=False) if "\n" in limit else [("cpu.max", limit)]:
        (tmp_path / name).write_text(text + "\n")
    assert cores.usable_cores(tmp_path) == usable


def test_a_limit_is_shared_too(cores, monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: 8)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    shares = {count: set(cores.thread_settings(count).values()) for count in (1, 2, 3, 8, 9)}
    assert shares == {1: {"8"}, 2: {"4"}, 3: {"2"}, 8: {"1"}, 9: {"1"}}


def test_the_command_line_is_there_before_the_framework(job):
    """Help and wrong options are quick, and CUDA_VISIBLE_DEVICES is set before the framework can look at it."""
    code = f"import sys, {PACKAGE}.job.cli; print(sorted(sys.modules))"
    environment = os.environ | {"PYTHONPATH": job.path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "'gpu_repo_runtime.batch.cli'" in done.stdout
    for framework_user in ("gpu_repo_runtime.device.with_", f"{PACKAGE}.model"):
        assert f"'{framework_user}" not in done.stdout, "the command line imports the framework"


@pytest.mark.parametrize(
    ("option", "environment", "shard"),
    [
        (None, {"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETIONS": "3"}, (2, 3)),
        ("1/3", {"RANK": "0", "WORLD_SIZE": "1"}, (1, 3)),
        (None, {}, (0, 1)),
    ],
)
def test_the_shard_follows_from_the_option_or_the_environment(job, option, environment, shard):
    assert job.module("options").find_shard(option, environment) == shard


def test_torchrun_is_rejected(job, tmp_path, out, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", ["x"]), "--output", out.path) == 78
    assert "start the job without torchrun" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("When reading: AWS Error ACCESS_DENIED during GetObject operation: HTTP response code 403", 78),
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation", 78),
        ("AWS Error UNKNOWN (HTTP status 403): ExpiredToken: the token has expired", 1),
        ("When writing key 'forbidden/part-403' in bucket 'no-such-bucket': AWS Error NETWORK_CONNECTION", 1),
    ],
)
def test_an_object_store_that_says_no(job, tmp_path, monkeypatch, capsys, error, code):
    """In the middle of a run: when the first part is written."""
    lines = write_jsonl(tmp_path / "a.jsonl", ["x"])

    def refuse(*_):
        raise OSError(error)

    monkeypatch.setattr(job.module("output").Output, "write_part", refuse)
    assert job("--input", lines, "--output", tmp_path / "out") == code
    assert error in capsys.readouterr().err
