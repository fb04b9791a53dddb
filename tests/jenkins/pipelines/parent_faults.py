"""What can go wrong between a push and its promotion: how it is arranged, where it shows, and by which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.jenkins.pipelines.parent import STAGES, Parent


def behind(parent: Parent, line: str, command: str) -> None:
    """Let the pipeline run a command behind the one line of it that holds `line`."""
    file = parent.source / "Jenkinsfile"
    lines = file.read_text().splitlines()
    [found] = [number for number, text in enumerate(lines) if line in text]
    lines.insert(found + 1, f'sh """{command}"""')
    file.write_text("\n".join(lines))


def gpu(fault: str) -> Callable[[Parent], None]:
    return lambda parent: (parent.label("gpu") / f"smoke-{fault}").touch()


def unlink_gpu(parent: Parent) -> None:
    (parent.label("gpu") / "nvidiactl").unlink()


def hanging_smoke(parent: Parent) -> dict[str, Any]:
    gpu("hangs")(parent)
    return {"timeouts": {"GPU smoke test": 3}}


def exchanged(old: str, new: str) -> Callable[[Parent], None]:
    """Exchange one piece of the Jenkinsfile."""

    def of(parent: Parent) -> None:
        file = parent.source / "Jenkinsfile"
        assert file.read_text().count(old) == 1
        file.write_text(file.read_text().replace(old, new))

    return of


def report(expression: str) -> Callable[[Parent], None]:
    """Change the report of the smoke test on its way to the promotion."""
    return lambda parent: behind(parent, "make smoke-digest", f"sed -i '{expression}' build/images/smoke/*.json")


def pushed_again(parent: Parent) -> None:
    """What is promoted was pushed later than what the report is about."""
    behind(parent, 'unstash "smoke-', "sed -i s/20..-..-..T/2999-01-01T/ build/images/pushed/*.json")


SMOKE = """sh 'GPUS="$GPU_SLOT0_DEVICE" make smoke-digest IMAGE="$ROW"'"""
BUILD, CHECK, PROMOTE = STAGES
FAULTS: dict[str, tuple[Callable[[Parent], Any], str, str, str]] = {  # arrange, first stage, stage that fails, words
    "no GPU on the GPU agent": (unlink_gpu, CHECK, CHECK, "no tag was set"),
    "smoke test fails": (gpu("fails"), CHECK, CHECK, "GPU and CPU differ"),
    "smoke test hangs": (hanging_smoke, CHECK, CHECK, "imeout"),
    "smoke test lies": (gpu("lies"), CHECK, CHECK, "the smoke report says fail"),
    "smoke test skips": (gpu("skips"), CHECK, CHECK, "every layer of the smoke test was skipped"),
    "smoke test is silent": (gpu("silent"), CHECK, CHECK, "the smoke report is empty"),
    "smoke test is left out": (exchanged(SMOKE, "sh 'exit 0'"), CHECK, CHECK, "smoke-torch-cu13"),
    "credential is missing": (lambda it: it.credentials.clear(), BUILD, BUILD, "'registry-staging'"),
    "registry is down": (lambda it: it.registry.stop(), BUILD, BUILD, "does not answer"),
    "stash is forgotten": (
        exchanged('unstash "smoke-${env.ROW}"', ""),
        PROMOTE,
        PROMOTE,
        "cannot read the smoke report",
    ),
    "report of another digest": (report("s/@sha256:..../@sha256:beef/"), CHECK, PROMOTE, "sha256:beef"),
    "report of another commit": (report('s/"commit": "..../"commit": "beef/'), CHECK, PROMOTE, "about the commit beef"),
    "report of an older push": (pushed_again, PROMOTE, PROMOTE, "about the push of"),
}
