"""Running uv on the environment of the image."""

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from pip_settings import uv_environment

DOES_NOT_FIT, WRONG_USE, FAILED = 1, 2, 3
CACHE = Path("/var/cache/base-install")


def stop(message: str, code: int = DOES_NOT_FIT) -> NoReturn:
    """End the program with one line."""
    print(f"base-install: {message}", file=sys.stderr)
    raise SystemExit(code)


def uv(*arguments: str, folder: Path, text: str = "", show: bool = False) -> subprocess.CompletedProcess[str]:
    """Run uv in a folder with this environment's Python. show: its messages go to the build's log."""
    settings = {"UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"}
    settings |= {"UV_NO_PROGRESS": "1", "UV_PROJECT_ENVIRONMENT": sys.prefix}
    # A cache that is not a mount would stay in the image.
    settings |= {"UV_CACHE_DIR": str(CACHE)} if CACHE.is_mount() else {"UV_NO_CACHE": "1"}
    log = None if show else subprocess.PIPE
    command = ["uv", "--color", "never", *arguments]
    environment = uv_environment() | settings
    return subprocess.run(
        command, cwd=folder, input=text, env=environment, stdout=log, stderr=log, text=True, check=False
    )


def reason(output: str) -> str:
    """Return the lines of uv that describe the problem, as one line."""
    lines = (line.strip() for line in output.splitlines() if not line.startswith(("Using ", "Resolved ", "warning:")))
    return " ".join(filter(None, lines)).removeprefix("error: ")
