"""How weights get into an image, or stay out of it, and into containers: a stand-in for Docker notes its calls."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.sampling import sampled
from tests.templates.own import own_copy, run, stand_in

# Says yes to all, and writes each call down, a word a line.
DOCKER = """\
printf '%s\\n' "$@" "" >>"$DOCKER_LOG"
"""
Call = Callable[..., tuple[int, str, list[list[str]]]]


@pytest.fixture(params=sampled(["service", "batch"], ["batch"]))
def call(request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path], tmp_path: Path) -> Call:
    """Return a function that runs a script in a child; it returns exit code, stderr and the calls of Docker."""
    child, log = own_copy(render(AnswerSet(request.param, "plain")), tmp_path), tmp_path / "docker.log"
    (child / "weights/words").mkdir(parents=True)
    (child / "weights/words/words.npz").write_bytes(b"a table of words")
    (child / "weights.toml").write_text('[words]\nsource = "weights/words"\n')
    stand_in(child, "docker", DOCKER)

    def of(script: str, **variables: str) -> tuple[int, str, list[list[str]]]:
        log.unlink(missing_ok=True)
        done = run(child, script, DOCKER_LOG=str(log), XDG_CACHE_HOME=str(tmp_path / "cache"), **variables)
        calls = log.read_text().split("\n\n") if log.exists() else []
        return done.returncode, done.stderr, [lines.split("\n") for lines in calls if lines]

    of.child = child  # type: ignore[attr-defined]
    assert of("scripts/weights lock")[0] == 0
    return of


def behind(calls: list[list[str]], action: str, option: str) -> list[str]:
    """Return what stands behind an option in the calls of an action."""
    found = [one for one in calls if one[0] == action]
    assert found, f"docker {action} was not called: {calls}"
    return [value for one in found for name, value in pairwise(one) if name == option]


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_image_gets_them_as_a_context_with_their_lock(call: Call) -> None:
    code, told, calls = call("scripts/build")
    assert code == 0, told
    [context] = behind(calls, "build", "--build-context")
    assert files(Path(context.removeprefix("weights="))) == ["weights.lock", "words/words.npz"]


def test_left_out_the_lock_alone_goes_in(call: Call) -> None:
    code, told, calls = call("scripts/build", WEIGHTS_IN="volume")
    assert code == 0, told
    [context] = behind(calls, "build", "--build-context")
    assert files(Path(context.removeprefix("weights="))) == ["weights.lock"]
    code, told, _ = call("scripts/build", WEIGHTS_IN="nowhere")
    assert (code, "take image or volume" in told) == (2, True)


def test_a_container_on_the_checkout_gets_them_mounted(call: Call) -> None:
    _, _, calls = call("scripts/test", RUN_IN="docker")  # the stand-in runs no tests, and is told so
    [mount] = [one for one in behind(calls, "run", "--volume") if one.endswith(":/weights:ro")]
    assert "words/words.npz" in files(Path(mount.removesuffix(":/weights:ro")))
    assert "WEIGHTS=/weights" in behind(calls, "run", "--env")
