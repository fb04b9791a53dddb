"""Decide what a missing GPU means: scripts/smoke --require says so through SMOKE_REQUIRE."""

import os

import pytest

from {{ package_name }} import device


@pytest.fixture(scope="session")
def cuda() -> str:
    """Return "cuda"; without a usable GPU skip, or fail where the GPU is required."""
    try:
        return device.choose("cuda")
    except device.DeviceError as error:
        missing = str(error)
    if os.environ.get("SMOKE_REQUIRE", "none") == "none":
        pytest.skip(missing)
    pytest.fail(missing, pytrace=False)
