"""Every row once, whatever happens to the processes that do the work."""

from __future__ import annotations

import errno
import random
import signal
import time
from pathlib import Path

import pytest

from tests.batch.conftest import Job, Output, texts, write_jsonl, write_parquet
from tests.sampling import sampled

ROWS = 500
OPTIONS = ("--part-rows", 25, "--batch-size", 8, "--on-error", "quarantine")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an input of three files in two formats, with a bad row."""
    lines = texts(ROWS)
    source = tmp_path / "in"
    source.mkdir()
    write_jsonl(source / "a.jsonl", lines[:300])
    write_parquet(source / "b.parquet", lines[300:])
    (source / "c.jsonl").write_text('{"text": 1}\n')
    return source


@pytest.fixture
def whole(job: Job, folder: Path, tmp_path: Path) -> Output:
    """Return the output of a run that nobody disturbs."""
    output = Output(tmp_path / "whole")
    assert job("--input", folder, "--output", output.path, *OPTIONS) == 0
    assert [row["row"] for row in output.rows()] == [*range(300), *range(200)]
    return output


def disturb(job: Job, arguments: tuple[object, ...], number: signal.Signals, seed: int, stops: int) -> list[int]:
    """Start the job again and again, sending a signal after a random time, until it is done or was hit `stops` times.

    Returns the exit codes. The times are from before Python has started to well within the work.
    """
    chance = random.Random(seed)
    codes: list[int] = []
    while codes.count(0) == 0 and len(codes) < stops:
        process = job.start(*arguments, SLOW="0.002")
        time.sleep(chance.uniform(0.0, 1.2))
        process.send_signal(number)
        process.communicate(timeout=60)
        codes.append(process.returncode)
    return codes


def check_untouched(output: Output) -> None:
    """Fail when an unfinished output has something that a reader could take for a result."""
    if not output.complete:
        visible = [p.name for p in output.path.glob("*") if not p.name.startswith("_")]
        assert visible in ([], ["data"]), visible


def kill_until(job: Job, folder: Path, whole: Output, tmp_path: Path, number: signal.Signals, stops: int) -> None:
    hits, chain = 0, 0
    while hits < stops:
        output = Output(tmp_path / f"disturbed-{chain}")
        arguments = ("--input", folder, "--output", output.path, *OPTIONS)
        codes = disturb(job, arguments, number, chain, stops - hits)
        hits += sum(code != 0 for code in codes)
        allowed = {0, -number} if number == signal.SIGKILL else {0, -number, 128 + number}
        assert set(codes) <= allowed, f"seed {chain}: {codes}"
        check_untouched(output)
        assert job(*arguments) == 0
        assert output.digest() == whole.digest(), f"seed {chain} after {len(codes)} starts"
        chain += 1


@pytest.mark.parametrize("number", sampled([signal.SIGKILL, signal.SIGTERM], [signal.SIGKILL]))
def test_stopped_at_a_few_moments(job, folder, whole, tmp_path, number):
    kill_until(job, folder, whole, tmp_path, number, stops=6)


@pytest.mark.release
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_stopped_at_100_moments(job, folder, whole, tmp_path, number):
    kill_until(job, folder, whole, tmp_path, number, stops=100)


def test_a_kill_repeats_at_most_one_part_that_was_computed(job, folder, out, monkeypatch):
    """However slow the disk is, the next part is begun when all but one of those before it have their records."""
    output, predicting = job.module("output"), job.module("predicting")
    write, run = output.Output.write_part, predicting.Predictor.run
    begun, without_record = 0, []

    def slow(*args):
        time.sleep(0.05)
        return write(*args)

    def begin(*args):
        nonlocal begun
        without_record.append(begun - len(list(out.path.glob("_parts/*.parquet"))))
        begun += 1
        return run(*args)

    monkeypatch.setattr(output.Output, "write_part", slow)
    monkeypatch.setattr(predicting.Predictor, "run", begin)
    assert job("--input", folder, "--output", out.path, *OPTIONS) == 0
    assert max(without_record) == 1, f"parts computed and not written at the start of each part: {without_record}"


@pytest.mark.slow
def test_two_workers_on_the_same_shard(job, folder, whole, out):
    workers = [job.start("--input", folder, "--output", out.path, *OPTIONS, SLOW="0.001") for _ in range(3)]
    said = [worker.communicate(timeout=60)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0], said
    assert out.digest() == whole.digest()


@pytest.mark.parametrize(("count", "rows"), sampled([(1, ROWS), (3, ROWS), (8, ROWS), (8, 3)], [(3, ROWS)]))
def test_shards_together_are_the_single_run(job, tmp_path, count, rows):
    source = write_jsonl(tmp_path / "in.jsonl", texts(rows))
    single, sharded = Output(tmp_path / "single"), Output(tmp_path / "sharded")
    options = ("--input", source, "--part-rows", 1 if rows < count else 25)
    assert job(*options, "--output", single.path) == 0
    for index in reversed(range(count)):
        assert not sharded.complete
        assert job(*options, "--output", sharded.path, "--shard", f"{index}/{count}") == 0
    assert sharded.rows() == single.rows()
    names = [sorted(path.name for path in (o.path / "data").iterdir()) for o in (single, sharded)]
    assert names[0] == names[1]


def test_parts_of_two_starts_that_found_other_files_are_no_result(job, tmp_path, out, monkeypatch, capsys):
    for name in "ab":
        write_jsonl(tmp_path / f"{name}.jsonl", texts(50))
    options = ("--input", tmp_path / "*.jsonl", "--output", out.path, "--part-rows", 10)
    assert job(*options, "--shard", "0/2") == 0
    (tmp_path / "b.jsonl").unlink()
    monkeypatch.setattr(job.module("plan").Plan, "settle", lambda *_: None)
    assert job(*options, "--shard", "1/2") == 78
    assert "another start found other input files" in capsys.readouterr().err
    assert not out.complete


@pytest.mark.parametrize("step", sampled(["make_data", "tidy"], ["make_data"]))
def test_killed_while_publishing(job, folder, whole, out, monkeypatch, step):
    store = job.module("output").Output

    def killed(*_):
        raise KeyboardInterrupt

    arguments = ("--input", folder, "--output", out.path, *OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(store, step, killed)
        with pytest.raises(KeyboardInterrupt):
            job(*arguments)
    assert job(*arguments) == 0
    assert out.digest() == whole.digest()


def test_a_full_disk_stops_the_job_and_more_room_lets_it_go_on(job, folder, whole, out, monkeypatch, capsys):
    store = job.module("output")
    written, sync = [0], store.os.fsync

    def no_room(descriptor):
        written[0] += 1
        if written[0] == 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(store.os, "fsync", no_room)
    arguments = ("--input", folder, "--output", out.path, *OPTIONS)
    assert job(*arguments) == 1
    assert "No space left on device" in capsys.readouterr().err
    check_untouched(out)
    assert list((out.path / "_tmp").iterdir()) == [], "half a file is left"
    assert job(*arguments) == 0
    assert out.digest() == whole.digest()
