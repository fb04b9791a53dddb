"""What goes wrong in a child's build, on whichever CI system: arranged in its files or on its agents."""

from __future__ import annotations

from collections.abc import Callable

from tests.jenkins.pipelines.children import Builds


def gpu(fault: str) -> Callable[[Builds], None]:
    """Let the smoke test of the GPU agent fail, skip, be silent, hang or lie (standins/smoke.py)."""
    return lambda it: (it.agents.labels["gpu"] / f"smoke-{fault}").touch()


def without_gpu(it: Builds) -> None:
    """Take the GPU from its agent."""
    (it.agents.labels["gpu"] / "nvidiactl").unlink()


def in_smoke(line: str) -> Callable[[Builds], None]:
    """Put a line into scripts/smoke, before it does anything."""

    def of(it: Builds) -> None:
        script = it.child / "scripts" / "smoke"
        head = 'source "$(dirname "$(readlink -f "$0")")/lib.sh"\n'
        assert head in script.read_text()
        script.write_text(script.read_text().replace(head, f"{head}{line}\n", 1))

    return of


def red_in_the_container(it: Builds) -> None:
    """Give the child a test that fails nowhere but in the container."""
    text = 'import os\n\n\ndef test_it():\n    assert "STANDIN_ROW" not in os.environ, "in the container alone"\n'
    (it.child / "tests" / "test_quick.py").write_text(text)
