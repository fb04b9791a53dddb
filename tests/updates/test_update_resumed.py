"""What a person and a program are told of an update that was stopped, and what the next call makes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_repo_runtime.update import cli, trial, write_back
from gpu_repo_runtime.update.write_back import STOPS

from tests.sampling import every, sampled
from tests.updates.copiers import ROOT
from tests.updates.program import Program
from tests.updates.test_write_back import in_a_process
from tests.updates.tiny import TEN_LINES, Child, Template, copy, make_child

FIRST = {"a.txt": TEN_LINES, "b.txt": "b\n", "gone.txt": TEN_LINES}
SECOND = {"a.txt": "theirs\n" + TEN_LINES, "b.txt": "2\n"}


def edited(template: Template, tmp_path: Path) -> Child:
    """Return a child whose update has a conflict and an edit at risk."""
    template.release("v1.0.0", FIRST)
    edits = {"a.txt": "mine\n" + TEN_LINES, "gone.txt": TEN_LINES + "mine\n"}
    child = make_child(template, tmp_path / "child", edits=edits)
    template.release("v2.0.0", SECOND)
    return child


def kill_at(step: str, program: Program, child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """Update the child and kill it at a step of the writing."""
    with monkeypatch.context() as patch:
        patch.setattr(write_back, "step", lambda name: name == step and os.kill(os.getpid(), signal.SIGKILL))
        assert in_a_process(lambda: program(child)) == -signal.SIGKILL


def test_what_is_finished_later_is_told_file_by_file(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = edited(template, tmp_path)
    kill_at("new b.txt", program, child, monkeypatch)
    assert program(child, "--answer", "x=y") == 4, program.err
    assert "conflict   a.txt" in program.out
    assert "at risk    gone.txt" in program.out
    assert "settle the conflict markers" in program.out
    assert "for another version or answer, commit it and run this again" in program.out


def test_what_is_finished_later_is_told_to_programs(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = edited(template, tmp_path)
    kill_at("new b.txt", program, child, monkeypatch)
    assert program.files(child) == {"a.txt": "conflict", "b.txt": "updated", "gone.txt": "at risk"}
    assert json.loads(program.out)["code"] == 4


def test_the_locks_are_seen_to_after_an_update_that_is_finished_later(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = edited(template, tmp_path)
    kill_at("new b.txt", program, child, monkeypatch)
    monkeypatch.setattr(cli, "renew_locks", lambda _: "the locks are renewed")
    program(child)
    assert "the locks are renewed" in program.err


def test_a_journal_of_0_3_0_is_finished(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = edited(template, tmp_path)
    kill_at("new b.txt", program, child, monkeypatch)
    place = child.path / ".git" / "template-update" / "journal.json"
    whole = json.loads(place.read_text())
    place.write_text(json.dumps({name: whole[name] for name in ("old", "new", "code", "prefix", "paths", "stages")}))
    assert program(child) == 4, program.err
    assert "look at git status" in program.out
    assert child.read("b.txt") == "2\n"


def test_the_update_of_one_project_does_not_pass_for_that_of_another(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.release("v1.0.0", FIRST)
    whole = Child(tmp_path / "whole", template.copier)
    (whole.path / "apps").mkdir(parents=True)
    one, two = (Child(whole.path / "apps" / name, template.copier) for name in ("one", "two"))
    for project in (one, two):
        assert copy(template, project.path).returncode == 0
    whole.git("init", "--quiet")
    whole.commit()
    template.release("v2.0.0", SECOND)
    kill_at("new b.txt", program, one, monkeypatch)
    assert program(two) == 0, program.err
    assert "apps/one/: v1.0.0 -> v2.0.0: the update that was interrupted is finished" in program.err
    assert (one.read("b.txt"), two.read("b.txt")) == ("2\n", "2\n")


@pytest.mark.parametrize("number", sampled(sorted(STOPS), every(3)), ids=lambda number: number.name)
def test_every_stop_takes_the_scratch_work_tree_away(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    child = edited(template, tmp_path)

    def work() -> int:
        monkeypatch.setattr(trial, "render_new", lambda *_: os.kill(os.getpid(), number))
        monkeypatch.setattr(sys, "argv", ["update", "--repository", str(child.path)])
        return cli.program()

    assert in_a_process(work) == 128 + number
    assert child.git("worktree", "list").count("\n") == 1
    assert child.status() == {}


def test_a_stop_while_locks_are_resolved_hides_no_conflict(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = edited(template, tmp_path)
    monkeypatch.setattr(cli, "renew_locks", lambda _: cli.stop(signal.SIGTERM, None))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit):
        program(child)
    assert "conflict   a.txt" in program.capsys.readouterr().out


def test_a_stop_while_scratch_folders_go_leaves_none(tmp_path: Path) -> None:
    stopped = """
import sys, tempfile
from gpu_repo_runtime.update.scratch_tree import scratch_folder
tempfile.TemporaryDirectory._rmtree = lambda *_, **__: sys.exit(143)
with scratch_folder() as folder:
    (folder / "file").touch()
"""
    own = {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "runtime" / "src")}
    done = subprocess.run([sys.executable, "-c", stopped], env=os.environ | own, check=False)
    assert done.returncode == 143
    assert list(tmp_path.iterdir()) == []
