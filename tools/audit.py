"""Ask the Python advisory database (pip-audit) about every package of every lock; `make scan` looks at images.

Exit codes: 0 no known vulnerability, 1 vulnerable packages, 3 the database cannot be asked.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CANARY = "pyyaml==5.3"  # CVE-2020-1747 (PYSEC-2020-96): whoever does not find this one finds nothing


def audit(lock: Path) -> subprocess.CompletedProcess[str]:
    """Run pip-audit over one lock: exit code 0 nothing found, 1 something found or not asked."""
    command = [sys.executable, "-m", "pip_audit", "--strict", "--disable-pip", "--no-deps", "--progress-spinner=off"]
    with tempfile.NamedTemporaryFile("w", suffix=".lock", encoding="utf-8") as asked:
        # The runtime lies in the child's wheels/ and on no index, so that no database knows it.
        asked.write(re.sub(r"(?m)^\S+ @ file:.*\n +--hash=.*\n", "", lock.read_text(encoding="utf-8")))
        asked.flush()
        return subprocess.run([*command, "--requirement", asked.name], capture_output=True, text=True, check=False)


def locks() -> list[Path]:
    """Return every lock of the repository."""
    tools = (ROOT / kind / "scripts" / "tools" for kind in ("templates/shared", "templates/library"))
    found = [ROOT / "requirements-dev.lock", *(lock for folder in tools for lock in folder.glob("*.lock"))]
    found += (ROOT / "base-images").rglob("requirements.lock")
    return sorted([*found, *(ROOT / "templates" / "locks").rglob("*.lock")])


def main() -> int:
    """Ask the advisory database about every lock and return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder) / "canary.lock"
        canary.write_text(f"{CANARY}\n", encoding="utf-8")
        if not re.search(r"PYSEC-|GHSA-|CVE-", audit(canary).stdout):
            print("audit: no advisory database can be reached from here (the test query failed)", file=sys.stderr)
            return 3
    bad = 0
    for lock in locks():
        done = audit(lock)
        print(f"{lock.relative_to(ROOT)}: {'vulnerable or not asked' if done.returncode else 'nothing known'}")
        if done.returncode:
            bad += 1
            print(done.stdout + done.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
