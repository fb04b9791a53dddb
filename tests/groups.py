"""Tests of one `xdist_group` on one worker: pytest 9.2 does not look where xdist 3.8 writes the group."""

from __future__ import annotations

import pytest
from _pytest.nodeid import NodeId


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put the group where xdist's scheduler reads it, if tests are handed out by groups."""
    group = item.get_closest_marker("xdist_group")
    if group and getattr(item.config.option, "loadgroup", False):
        item._id = NodeId.parse(f"{item.nodeid}@{group.args[0]}")
