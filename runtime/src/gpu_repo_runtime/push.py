"""Push an image to staging, and write its digest where the scripts behind it read it.

usage: push IMAGE STAGING REPOSITORY --commit HASH --to FILE

scripts/push starts it, straight from the wheel. Exit codes: 0 done, 2 wrong use, 3 the registry did not take it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from .registry import RegistryError, check_same, logged_in

PAUSES_S = (2, 10)
# What a registry says for a moment; what it refuses stays refused.
BUSY = re.compile(r"\b50[0-9]\b|unavailable|too ?many ?requests|timeout|reset by peer|EOF", re.IGNORECASE)
DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")


def push(image: str, waiting: str) -> str:
    """Push an image under another name and return its digest. Raises RegistryError."""
    subprocess.run(["docker", "tag", image, waiting], check=True)
    for pause in (*PAUSES_S, None):
        done = subprocess.run(
            ["docker", "push", waiting], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        last = (done.stdout.splitlines() or [""])[-1]
        if done.returncode == 0:
            break
        if pause is None or not BUSY.search(done.stdout):
            raise RegistryError(3, f"{waiting} was not pushed: {last}")
        print(f"push: the registry did not take {waiting}; trying again in {pause} s", file=sys.stderr)
        time.sleep(pause)
    found = DIGEST.findall(done.stdout)
    if not found:
        raise RegistryError(3, f"docker push said no digest of {waiting}: {last}")
    return str(found[-1])


def main() -> int:
    """Read the command line, push, say what was done; return the exit code."""
    parser = argparse.ArgumentParser(prog="push")
    for name in ("image", "staging", "repository"):
        parser.add_argument(name)
    for option in ("--commit", "--to"):
        parser.add_argument(option, required=True)
    asked = parser.parse_args()
    file, waiting = Path(asked.to), f"{asked.staging}:{asked.image.rpartition(':')[2]}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    try:
        with logged_in(check_same(asked.repository, asked.staging)):
            digest = push(asked.image, waiting)
    except RegistryError as error:
        print(f"push: {error}", file=sys.stderr)
        return error.code
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: UP017 - an agent may have an older Python
    file.write_text(f"{asked.staging}@{digest}\n{asked.commit}\n{now}\n", encoding="utf-8")
    print(f"push: pushed {waiting} as {asked.staging}@{digest}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
