"""Why no GPU can be used, in the words of gpu-smoke, which every base image carries."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

SECONDS = 60.0
PROGRAM = "/usr/local/bin/gpu-smoke"  # the base image's own, whatever a package calls its scripts


def gpu_cause() -> dict[str, str]:
    """The lowest fault of the GPU call stack: code, title, evidence and fix; empty where gpu-smoke is not installed."""
    program = shutil.which(PROGRAM) or shutil.which("gpu-smoke")
    if program is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [program, "--require", "gpu", "--json", str(report)]
        try:
            subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
            cause = json.loads(report.read_text())["cause"] or {}
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
            return {"title": f"gpu-smoke gave no cause: {error}"}
    return {key: str(cause[key]) for key in ("code", "title", "evidence", "fix") if key in cause}
