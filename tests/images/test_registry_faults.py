"""A registry that hangs, is busy, or rejects a request."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from gpu_repo_runtime import patience
from image_tools import registry
from image_tools.catalog import ImageError


@pytest.fixture
def skopeo(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of what skopeo does next: an exception, or the text of its refusal; then it answers."""
    faults: list[Any] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert options["timeout"] > 0, "a registry that hangs would hang the pipeline"
        fault = faults.pop(0) if faults else None
        if isinstance(fault, Exception):
            raise fault
        return subprocess.CompletedProcess(command, 1 if fault else 0, "fine", fault or "")

    monkeypatch.setattr(patience.subprocess, "run", run)
    monkeypatch.setattr(registry.shutil, "which", lambda _: "/usr/bin/skopeo")
    monkeypatch.setenv("REGISTRY_PAUSES", "0 0")
    return faults


# test_patience.py in tests/runtime has all words of a busy registry.
BUSY = [subprocess.TimeoutExpired("skopeo", 120), "reading manifest v1 in host/ml/x: unknown: slow down"]


ABSENT = {
    "reading manifest x in host/y: manifest unknown": True,
    "name unknown: The repository with name 'y' does not exist in the registry": True,
    'manifest tagged by "x" is not found': True,
    "unauthorized: access to the requested resource is not authorized": False,
    'error getting credentials - err: exec: "docker-credential-x": executable file not found in $PATH': False,
    "received unexpected HTTP status: 404 was expected, 200 came": False,
}


@pytest.mark.parametrize("fault", ABSENT)
def test_only_what_says_so_is_absent(skopeo: list[Any], fault: str) -> None:
    """What is absent is set anew: a promotion must not take a login that does not work for a tag that is free."""
    skopeo += [fault, fault]
    if ABSENT[fault]:
        assert registry.find("host/y:x") is None
    else:
        with pytest.raises(ImageError, match="does not answer"):
            registry.find("host/y:x")


@pytest.mark.parametrize("fault", BUSY, ids=str)
def test_a_busy_registry_is_asked_again_within_a_limit(skopeo: list[Any], fault: Any) -> None:
    skopeo += [fault, fault]
    assert registry.skopeo("inspect", "x", problem="p") == "fine"
    skopeo += [fault] * 3
    with pytest.raises(ImageError, match=r"^p: "):
        registry.skopeo("inspect", "x", problem="p")
    assert skopeo == [], "it was not asked three times"
