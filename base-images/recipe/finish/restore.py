"""Build step of the devel image: bring back the headers and static libraries that the runtime image leaves out.

    restore.py PLAN KIT
PLAN holds requirements.txt (the packages to unpack again) and restore.json (the globs to take from them).
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from file_times import set_times
from pip_settings import uv_environment

SITE = next(Path("/opt/env").glob("lib/python3*/site-packages"))


def main() -> None:
    """Unpack the packages beside the environment and copy what is missing in it."""
    start = int(time.time())
    plan, kit = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory(dir="/srv") as folder:
        environment = uv_environment() | {"UV_CACHE_DIR": "/srv"}
        options = [
            "--index-strategy",
            "unsafe-best-match",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--link-mode",
            "hardlink",
            "--quiet",
        ]
        target = ["--python", "/opt/env/bin/python", "--target", folder, "-r", str(plan / "requirements.txt")]
        subprocess.run(
            [kit / "opt/installer/native", "uv", "pip", "install", *options, *target], check=True, env=environment
        )
        for pattern in json.loads((plan / "restore.json").read_text()):
            for path in Path(folder).glob(pattern):
                goal = SITE / path.relative_to(folder)
                if path.is_file() and not goal.exists():
                    goal.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, goal)
    set_times([Path("/opt/env")], since=start)


if __name__ == "__main__":
    main()
