"""Ask the Python advisory database (pip-audit) about every package of every lock; `make scan` looks at images.

Exit codes: 0 no known vulnerability, 1 vulnerable packages or a lock that could not be checked, 3 no database answers.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CANARY = "pyyaml==5.3"  # CVE-2020-1747 (PYSEC-2020-96): a database that lacks this one is no database
ADVISORY = re.compile(r"PYSEC-|GHSA-|CVE-")


def audit(lock: str) -> subprocess.CompletedProcess[str]:
    """Run pip-audit over the text of a lock: exit code 0 nothing found, 1 something found or not asked."""
    command = [sys.executable, "-m", "pip_audit", "--strict", "--disable-pip", "--no-deps", "--progress-spinner=off"]
    with tempfile.NamedTemporaryFile("w", suffix=".lock", encoding="utf-8") as asked:
        # The runtime lies in the child's wheels/ and on no index, so that no database knows it.
        asked.write(re.sub(r"(?m)^\S+ @ file:.*\n +--hash=.*\n", "", lock))
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
    test = audit(f"{CANARY}\n")
    if not ADVISORY.search(test.stdout):
        why = (test.stderr.strip() or f"it reports nothing about {CANARY}").splitlines()[-1]
        print(f"audit: nothing was checked: PyPI's advisory database does not answer here ({why})", file=sys.stderr)
        return 3
    bad = 0
    for lock in locks():
        done = audit(lock.read_text(encoding="utf-8"))
        bad += done.returncode != 0
        failed = "vulnerable" if ADVISORY.search(done.stdout) else "not checked"
        said = f"{failed}\n{done.stdout}{done.stderr}" if done.returncode else "no known vulnerability"
        print(f"{lock.relative_to(ROOT)}: {said}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
