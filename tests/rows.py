"""Tests that need the same base image run together, so that a machine's disk has to hold one image at a time.

The five images and the cache that built them take some 45 GB; the largest alone takes 12.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator

import pytest

COMMON = re.compile(r"debian\.sh install (image|installer) ")
DROP = "DROP_IMAGES"  # set to 1, an image and the build cache go as soon as its tests are done


def row_of(item: pytest.Item) -> str:
    """Return the catalogue's name of the image that a test needs: its mark `row`, its parameter `image`, else ''."""
    mark = item.get_closest_marker("row")
    if mark:
        return str(mark.args[0])
    called = getattr(item, "callspec", None)
    return str(called.params.get("image", "")) if called and item.get_closest_marker("images") else ""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of a row one after another, rows in the order of their first test, tests without a row last."""
    rows = list(dict.fromkeys(filter(None, map(row_of, items))))
    order = {name: place for place, name in enumerate([*rows, ""])}
    items.sort(key=lambda item: order[row_of(item)] if item.get_closest_marker("images") else -1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Drop the images of a row after its last test, if DROP_IMAGES asks for it."""
    yield
    row = row_of(item)
    if row and os.environ.get(DROP) and (nextitem is None or row_of(nextitem) != row):
        drop(row)


def drop(row: str) -> None:
    """Remove the images of a row and what is cached but the first steps of all rows. Raises CalledProcessError."""
    if images := _docker("image", "ls", "--quiet", f"registry.example.com/*/{row}").split():
        _docker("image", "rm", "--force", *images)
    _docker("image", "prune", "--force")
    steps = json.loads(_docker("system", "df", "--verbose", "--format={{json .BuildCache}}"))
    gone = [one["ID"] for one in steps if not COMMON.search(one["Description"])]
    _docker("builder", "prune", "--all", "--force", f"--filter=id={'|'.join(gone)}")


def _docker(*command: str) -> str:
    return subprocess.run(["docker", *command], check=True, stdout=subprocess.PIPE, text=True).stdout
