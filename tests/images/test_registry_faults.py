"""What a registry answers about a tag: absent is only what says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_tools import registry
from image_tools.catalog import ImageError

from tests.shared import program

ABSENT = {
    "reading manifest x in host/y: manifest unknown": True,
    "name unknown: The repository with name 'y' does not exist in the registry": True,
    'manifest tagged by "x" is not found': True,
    "unauthorized: access to the requested resource is not authorized": False,
    'error getting credentials - err: exec: "docker-credential-x": executable file not found in $PATH': False,
    "received unexpected HTTP status: 404 was expected, 200 came": False,
}


def test_only_what_says_so_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is absent is set anew: a promotion must not take a login that does not work for a tag that is free."""
    program(tmp_path / "skopeo", '#!/bin/sh\nread -r said <"$0.says"\necho "$said" >&2\nexit 1\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    for fault, absent in ABSENT.items():
        (tmp_path / "skopeo.says").write_text(f"{fault}\n")
        if absent:
            assert registry.find("host/y:x") is None, fault
        else:
            with pytest.raises(ImageError, match="does not answer"):
                registry.find("host/y:x")
