"""Every test here executes a Jenkinsfile."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name what executes Jenkinsfiles."""
    item.add_marker(pytest.mark.needs("groovy"))
