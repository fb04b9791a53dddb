"""The fleet's pages as a browser shows them."""

from __future__ import annotations

import subprocess
from pathlib import Path

# Without a sandbox: containers run tests as root, and the page comes from the test itself.
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,1000"]


def opened(page: Path, view: str) -> str:
    """Return the page's document in Chromium at a view (the part of the address after #)."""
    return in_chromium(page, "--dump-dom", f"{page.as_uri()}#{view}")


def printed(page: Path) -> bytes:
    """Return the page on paper, as PDF."""
    place = page.with_suffix(".pdf")
    in_chromium(page, "--no-pdf-header-footer", f"--print-to-pdf={place}", page.as_uri())
    return place.read_bytes()


def in_chromium(page: Path, *arguments: str) -> str:
    """Run Chromium with a profile beside the page and return what it prints."""
    command = ["chromium", *OPTIONS, f"--user-data-dir={page.parent / 'profile'}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
