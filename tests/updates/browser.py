"""The fleet's pages as a browser shows them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
# Without a sandbox: containers run tests as root, and the page comes from the test itself.
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,1000"]


def opened(page: Path, view: str) -> str:
    """Return the page's document in Chromium at a view (the part of the address after #)."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: chromium), so the page was not opened")
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [CHROMIUM, *OPTIONS, profile, "--dump-dom", f"{page.as_uri()}#{view}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
