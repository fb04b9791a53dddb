"""Known weaknesses of every package of every lock and image.

Without databases, the Python advisory database is asked about the locks. With --db, nothing is asked of anybody: the
databases that are given decide, about Python packages and those of Debian, and base-images/catalog.yml what is allowed.

Exit codes: 0 nothing stops a release, 1 vulnerable packages, 2 a problem with what was given, 3 the database cannot be
asked, or something was not looked at.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import with_runtime  # noqa: F401

# isort: split
from image_tools.catalog import ImageError, find_row, live_rows, read_catalog
from image_tools.weaknesses import audit as given

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
    """Return every lock of the repository that is not a row's."""
    found = [ROOT / "requirements-dev.lock", *(ROOT / "templates" / "shared" / "scripts" / "tools").glob("*.lock")]
    found += (ROOT / "base-images" / "recipe").rglob("requirements.lock")
    found += (ROOT / "templates" / "library" / "scripts" / "tools").glob("*.lock")
    return sorted([*found, *(ROOT / "templates" / "locks").rglob("*.lock")])


def ask() -> int:
    """Ask the advisory database about every lock and return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder) / "canary.lock"
        canary.write_text(f"{CANARY}\n", encoding="utf-8")
        if not re.search(r"PYSEC-|GHSA-|CVE-", audit(canary).stdout):
            print(
                f"audit: nothing was audited: the advisory database does not know {CANARY} from here", file=sys.stderr
            )
            return 3
    bad = 0
    for lock in [*locks(), *sorted((ROOT / "base-images").glob("*/requirements.lock"))]:
        done = audit(lock)
        print(f"{lock.relative_to(ROOT)}: {'vulnerable or not asked' if done.returncode else 'nothing known'}")
        if done.returncode:
            bad += 1
            print(done.stdout + done.stderr)
    return 1 if bad else 0


def main() -> int:
    """Audit and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", default="", metavar="PLACES", help="OSV's advisories (folder, zip), Debian's tracker")
    parser.add_argument("--image", default="", help="one row of the catalogue alone (with --db)")
    options = parser.parse_args()
    try:
        catalog = read_catalog()
        chosen = [find_row(catalog, options.image)] if options.image else live_rows(catalog)
        if not options.db:
            return ask()
        return given.run(catalog, [row["name"] for row in chosen], [] if options.image else locks(), options.db)
    except ImageError as error:
        print(f"audit: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
