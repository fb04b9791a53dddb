"""An update is written whole or not at all: the program is killed, stopped and failed at each of its steps."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime.update import cli, trial, write_back
from gpu_repo_runtime.update.git_calls import UpdateError
from gpu_repo_runtime.update.write_back import Journal

from tests.updates.copiers import Copier
from tests.updates.program import Program
from tests.updates.tiny import TEN_LINES, Child, Template, make_child, write_files

OLD = {"a.txt": "old\n", "conf": "a file\n", "gone/deep.txt": "old\n", "run": "old\n", ".copier-answers.yml": "old\n"}
NEW = {
    "a.txt": "new\n",
    "conf/x.txt": "a folder\n",
    "new/b.txt": "new\n",
    "run": "new\n",
    ".copier-answers.yml": "new\n",
}
PATHS = [*sorted({*OLD, *NEW} - {".copier-answers.yml"}), ".copier-answers.yml"]


@pytest.fixture
def child(tmp_path: Path, copier: Copier) -> Child:
    """Return a repository in the old state."""
    made = Child(tmp_path / "child", copier)
    write_files(made.path, OLD)
    made.git("init", "--quiet")
    made.commit()
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return the new state; one of its files became a program."""
    write_files(tmp_path / "tree", NEW)
    (tmp_path / "tree" / "run").chmod(0o755)
    return tmp_path / "tree"


def journal(child: Child) -> Journal:
    stored = child.git("hash-object", "-w", "a.txt").strip()
    return Journal("v1.0.0", "v2.0.0", 3, "", PATHS, f"0 {'0' * 40}\ta.txt\x00100644 {stored} 2\ta.txt\0")


def state(child: Child) -> dict[str, str]:
    """Return the files of the child, and no leftovers of git's folder may be among them."""
    files = [path for path in child.path.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(child.path)): path.read_text() for path in files}


def steps(child: Child, tree: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of all steps, from a run on a copy."""
    copy = Child(child.path.with_name("copy"), child.copier)
    shutil.copytree(child.path, copy.path)
    names: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(write_back, "step", names.append)
        write_back.write(copy.path, tree, journal(copy))
    assert state(copy) == NEW
    assert os.access(copy.path / "run", os.X_OK)
    assert copy.unmerged() == {"a.txt"}
    return names


def in_a_process(work: Callable[[], object]) -> int:
    """Run `work` in a process of its own and return how it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as end:
            traceback.print_exc()
            os._exit(int(end.code or 0) if isinstance(end, SystemExit) else 99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_kill_at_any_step_ends_in_the_old_state_or_in_the_new_one(
    child: Child, tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = steps(child, tree, monkeypatch)
    ends = set()
    for number, name in enumerate(names):
        one = Child(tmp_path / f"kill{number}", child.copier)
        shutil.copytree(child.path, one.path)
        left = iter([None] * number)

        def kill(_: str, left: object = left) -> None:
            if next(left, "now") == "now":  # type: ignore[call-overload]
                os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(write_back, "step", kill)
        assert in_a_process(lambda one=one: write_back.write(one.path, tree, journal(one))) == -signal.SIGKILL  # type: ignore[misc]
        monkeypatch.undo()
        if name.startswith("new "):
            assert one.read(".copier-answers.yml") == "old\n", f"{name}: the answers run ahead of the files"
        finished = write_back.resume(one.path)
        expected = OLD if finished is None else NEW
        assert state(one) == expected, f"killed at {name}"
        assert (one.unmerged() == {"a.txt"}) is (finished is not None), f"killed at {name}"
        assert not (one.path / ".git" / "template-update").exists(), f"killed at {name}"
        ends.add(finished is None)
    assert ends == {True, False}


def test_an_error_at_any_step_takes_everything_back(child: Child, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in steps(child, tree, monkeypatch):
        if name == "forget":
            continue  # from here on it is written

        def fail(now: str, name: str = name) -> None:
            if now == name:
                raise OSError("No space left on device")

        monkeypatch.setattr(write_back, "step", fail)
        with pytest.raises(UpdateError, match="No space left"):
            write_back.write(child.path, tree, journal(child))
        monkeypatch.undo()
        assert state(child) == OLD, name
        assert child.status() == {}, name


@pytest.mark.parametrize("threads", [0, 1])
def test_a_stop_while_writing_ends_after_it(
    child: Child, tree: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """A thread that the mask of the first does not reach may take the signal."""
    monkeypatch.setattr(write_back, "step", lambda name: name == "new a.txt" and os.kill(os.getpid(), signal.SIGTERM))

    def work() -> None:
        for _ in range(threads):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        signal.signal(signal.SIGTERM, cli.stop)
        write_back.write(child.path, tree, journal(child))

    assert in_a_process(work) == 128 + signal.SIGTERM
    assert state(child) == NEW


def test_a_stop_before_writing_leaves_nothing(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "b\n"})

    def work(number: int) -> int:
        signal.signal(signal.SIGTERM, cli.stop)
        monkeypatch.setattr(trial, "render_new", lambda *_: os.kill(os.getpid(), number))
        return program(child)

    assert in_a_process(lambda: work(signal.SIGTERM)) == 128 + signal.SIGTERM
    assert child.git("worktree", "list").count("\n") == 1
    assert in_a_process(lambda: work(signal.SIGKILL)) == -signal.SIGKILL
    assert child.git("worktree", "list").count("\n") == 2
    assert child.status() == {}
    assert program(child) == 0, program.err
    assert child.git("worktree", "list").count("\n") == 1, "the next run takes away what a kill left"


def test_the_next_run_finishes_what_was_killed(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES, "b.txt": "b\n"})
    child = make_child(template, tmp_path / "child", edits={"a.txt": "mine\n" + TEN_LINES})
    template.release("v2.0.0", {"a.txt": "theirs\n" + TEN_LINES, "b.txt": "2\n"})
    with monkeypatch.context() as patch:
        patch.setattr(write_back, "step", lambda name: name == "new b.txt" and os.kill(os.getpid(), signal.SIGKILL))
        assert in_a_process(lambda: program(child)) == -signal.SIGKILL
    assert "_commit: v1.0.0" in child.read(".copier-answers.yml")
    assert program(child, "--dry-run") == 1
    assert "run this without --dry-run first" in program.err
    assert program(child) == 3, program.err
    assert "the update that was interrupted is finished" in program.out
    assert child.read("b.txt") == "2\n"
    assert child.unmerged() == {"a.txt"}
    assert "_commit: v2.0.0" in child.read(".copier-answers.yml")


def test_an_update_killed_after_the_writing_is_named_by_the_next_run(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "b\n"})
    with monkeypatch.context() as patch:
        patch.setattr(cli, "after_writing", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        assert in_a_process(lambda: program(child)) == -signal.SIGKILL
    assert child.read("a.txt") == "b\n"
    assert program(child) == 1
    assert program.err.startswith("update: the update v1.0.0 -> v2.0.0 is written and not committed: "), program.err
    child.commit("Update")
    assert program(child) == 0, program.err
    assert "nothing to do" in program.out


def test_a_file_that_was_changed_after_the_kill_is_not_overwritten(
    child: Child, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_back, "step", lambda name: name == "new run" and os.kill(os.getpid(), signal.SIGKILL))
    assert in_a_process(lambda: write_back.write(child.path, tree, journal(child))) == -signal.SIGKILL
    monkeypatch.undo()
    write_files(child.path, {"run": "the owner's\n"})
    with pytest.raises(UpdateError, match="run was changed since"):
        write_back.resume(child.path)
    assert child.read("run") == "the owner's\n"


def test_what_is_in_the_way_stops_it_before_anything_is_written(child: Child, tree: Path) -> None:
    write_files(child.path, {"new": "untracked\n"})
    with pytest.raises(UpdateError, match=r"brings new/b.txt, and new is here and not in git"):
        write_back.write(child.path, tree, journal(child))
    (child.path / "new").unlink()
    (child.path / "new" / "b.txt").mkdir(parents=True)
    write_files(child.path, {"new/b.txt/own": "untracked\n"})
    with pytest.raises(UpdateError, match=r"brings new/b.txt, which is here"):
        write_back.write(child.path, tree, journal(child))
    shutil.rmtree(child.path / "new")
    lock = child.path / ".git" / "index.lock"
    lock.touch()
    with pytest.raises(UpdateError, match=f"remove {lock}"):
        write_back.write(child.path, tree, journal(child))
    lock.unlink()
    assert state(child) == OLD


def test_a_folder_that_cannot_be_written_stops_it_before_anything_is_written(
    child: Child, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = os.access
    read_only = str(child.path / "gone")  # root may write everywhere, so the question itself is answered here
    monkeypatch.setattr(os, "access", lambda place, mode: str(place) != read_only and able(place, mode))
    with pytest.raises(UpdateError, match=f"{read_only} cannot be written"):
        write_back.write(child.path, tree, journal(child))
    assert state(child) == OLD


def test_two_updates_at_once_are_refused(template: Template, program: Program, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "b\n"})
    command = ["flock", str(child.path / ".git" / "template-update.lock"), "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        other.stdin.write(b"ready\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"ready\n"
        assert program(child) == 1
        assert "another update works on this repository" in program.err
        other.stdin.close()
    assert child.read("a.txt") == "a\n"
