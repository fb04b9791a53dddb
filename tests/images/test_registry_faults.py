"""What a registry says of a tag: a promotion must not take a login that does not work for a tag that is free."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from image_tools import registry
from image_tools.catalog import ImageError

from tests.shared import program

# tests/runtime/test_patience.py has all words of a busy registry.
ABSENT = {
    "reading manifest x in host/y: manifest unknown": True,
    "name unknown: The repository with name 'y' does not exist in the registry": True,
    'manifest tagged by "x" is not found': True,
    "unauthorized: access to the requested resource is not authorized": False,
    'error getting credentials - err: exec: "docker-credential-x": executable file not found in $PATH': False,
    "received unexpected HTTP status: 404 was expected, 200 came": False,
}


@pytest.mark.parametrize("fault", ABSENT)
def test_only_what_says_so_is_absent(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "skopeo", '#!/bin/sh\necho "$FAULT" >&2\nexit 1\n')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("REGISTRY_PAUSES", "0 0")
    if ABSENT[fault]:
        assert registry.find("host/y:x") is None
    else:
        with pytest.raises(ImageError, match="does not answer"):
            registry.find("host/y:x")
