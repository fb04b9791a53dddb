"""What base-install leaves when it is killed, stopped or fails while files move: the environment of before."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .small_image import SOURCE, Bench


def fault(step: int, how: str) -> str:
    """Return Python that ends the program at its n-th renaming of a file."""
    return f"""
import os, signal
real, count = os.rename, 0
def rename(*arguments):
    global count
    count += 1
    if count == {step}:
        {how}
    real(*arguments)
os.rename = rename
"""


class Place:
    """An environment without Python in it, for the steps of placing alone."""

    def __init__(self, folder: Path) -> None:
        self.environment, self.packages = folder, folder / "lib" / "site-packages"
        self.outdated = [self.packages / name for name in ("tool/__init__.py", "tool/old.py")]
        for path in [*self.outdated, self.packages / "base.py"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(path.name)

    def is_base_file(self, path: Path) -> bool:
        """Tell whether it is the one file of the base."""
        return path == self.packages / "base.py"

    def stage(self, root: Path) -> None:
        """Write what pip would have installed below the root."""
        for name in ("tool/__init__.py", "tool/new/module.py", "other.py", "base.py"):
            path = root.joinpath(*self.packages.parts[1:]) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("new")

    def tree(self) -> dict[str, str]:
        """Return the text of each file, and an empty text for each folder."""
        paths = self.environment.rglob("*")
        return {str(path.relative_to(self.environment)): path.read_text() if path.is_file() else "" for path in paths}


def end_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the n-th renaming end the program: what is on the disk is what a kill leaves."""
    real, count = os.rename, 0

    def rename(source: str, goal: str) -> None:
        nonlocal count
        count += 1
        if count == step:
            raise KeyboardInterrupt(f"step {step}")
        real(source, goal)

    monkeypatch.setattr(os, "rename", rename)


def test_ended_at_any_step_it_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended at each step of placing, and at each step of taking back, the next start finds what was there before."""
    monkeypatch.syspath_prepend(str(SOURCE.parent))
    from base_install.placing import Placing

    place = Place(tmp_path / "env")
    before, ends = place.tree(), 0
    for step in range(1, 20):
        for second in (0, 1, 2, 3):
            placing = Placing(place)
            place.stage(placing.begin())
            with monkeypatch.context() as patch:
                end_at(step, patch)
                try:
                    placing.place(place.outdated)
                except KeyboardInterrupt:
                    ends += 1
                end_at(second, patch)
                with contextlib.suppress(KeyboardInterrupt):
                    Placing(place).take_back()
            Placing(place).take_back()
            assert place.tree() == before, f"ended at step {step}, then at step {second} of taking back"
    assert ends >= 5 * 4, "placing renames too few files for this test to mean anything"
    placing = Placing(place)
    place.stage(placing.begin())
    placing.place(place.outdated)
    placing.finish()
    files = {name: text for name, text in place.tree().items() if text}
    site = "lib/site-packages"
    assert files == {f"{site}/{name}": "new" for name in ("tool/__init__.py", "tool/new/module.py", "other.py")} | {
        f"{site}/base.py": "base.py"
    }


@pytest.mark.slow
def test_a_killed_installation_is_repaired_by_the_next(bench: Bench) -> None:
    """Killed while files move, the environment is whole again when the next run begins, and takes the lock."""
    lock = bench.wheel("tool", **{"tool.py": "", "other.py": ""})
    done = bench.install(lock, fault(3, "os.kill(os.getpid(), signal.SIGKILL)"))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (bench.environment / ".base-install" / "journal.json").exists(), "it was killed too early to mean anything"
    done = bench.install(lock)
    assert (done.returncode, done.stdout.split()[1]) == (0, "1"), done.stderr
    assert not (bench.environment / ".base-install").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_it_with_the_old_environment(bench: Bench, name: str) -> None:
    """A stopped build ends with the signal's code, without a traceback, and takes back what it did."""
    before = bench.tree()
    lock = bench.wheel("tool", **{"tool.py": "", "other.py": ""})
    done = bench.install(lock, fault(3, f"os.kill(os.getpid(), signal.{name})"))
    assert done.returncode == 128 + signal.Signals[name], done.stderr
    assert "Traceback" not in done.stderr
    assert bench.tree() == before


def test_a_full_disk_is_one_line(bench: Bench) -> None:
    before = bench.tree()
    lock = bench.wheel("tool", **{"tool.py": "", "other.py": ""})
    done = bench.install(lock, fault(3, "raise OSError(28, 'No space left on device', 'tool.py')"))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        3,
        "base-install: No space left on device (tool.py); the environment is as it was",
    )
    assert "Traceback" not in done.stderr
    assert bench.tree() == before


def test_a_second_one_waits_for_the_first(bench: Bench) -> None:
    """Two at once would take each other's files back."""
    lock = bench.wheel("tool", **{"tool.py": ""})
    holder = os.open(bench.environment, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bench.install, lock)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=1.5)
        os.close(holder)
        assert waiting.result(timeout=60).returncode == 0
