"""Build the runtime's wheel and put it, byte for byte the same for the same source, where children get it from.

usage: tools/build_wheel.py [--check]        (make wheel)

--check changes nothing and ends with 1 where a committed wheel is not what the source gives.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from family import types

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "runtime"
HEAD = "# The runtime of this repository, for scripts/lock. It comes with the template, like the wheel.\n"


def sources() -> list[Path]:
    """Return the files of the runtime that git knows or would add, relative to it: an editor's leftovers stay out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=RUNTIME, check=True, capture_output=True, text=True).stdout
    return sorted(Path(name) for name in listed.split("\0") if name and (RUNTIME / name).is_file())


def build(folder: Path) -> Path:
    """Build the wheel from a clean copy into ``folder`` and return it. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as copy:
        for name in sources():
            target = Path(copy, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(RUNTIME / name, target)
            target.chmod(0o644)  # the wheel keeps the mode
        uv = Path(sys.executable).with_name("uv")
        command = [str(uv), "build", "--quiet", "--wheel", "--out-dir", str(folder), copy]
        subprocess.run(command, check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def with_hash(lock: str, wheel: Path) -> str:
    """Return a lock with the wheel's hash where it names that wheel; what the runtime needs is for `make locks`."""
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    line = rf"(@ file:wheels/{re.escape(wheel.name)} \\\n    --hash=sha256:)[0-9a-f]+"
    return re.sub(line, rf"\g<1>{sha256}", lock)


def files(wheel: Path) -> dict[Path, bytes]:
    """Return what the templates hold because of ``wheel``."""
    name = wheel.name.split("-")[0]
    found: dict[Path, bytes] = {}
    for project_type, facts in types().items():
        extras = facts["extras"]
        place = ROOT / "templates" / project_type / "wheels"
        found[place / wheel.name] = wheel.read_bytes()
        if extras:
            asked = f"{name.replace('_', '-')}[{extras}] @ file:wheels/{wheel.name}\n"
            found[place / "requirements.in"] = (HEAD + asked).encode()
        for lock in ROOT.glob(f"templates/locks/{project_type}-*/*.lock"):
            found[lock] = with_hash(lock.read_text(), wheel).encode()
    return found


def main() -> int:
    """Build, then write or compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            wanted = files(build(Path(folder)))
        except subprocess.CalledProcessError:
            print(
                "wheel: uv could not build it (see above); runtime/pyproject.toml names the uv_build of "
                "the uv in templates/shared/scripts/tools/uv.lock",
                file=sys.stderr,
            )
            return 1
    held = {path for kind in types() for path in (ROOT / "templates" / kind / "wheels").glob("*")}
    wrong = sorted(held - wanted.keys())
    wrong += [path for path, data in wanted.items() if not path.exists() or path.read_bytes() != data]
    if options.check:
        for path in wrong:
            print(f"wheel: {path.relative_to(ROOT)} is not what runtime/ gives: make wheel", file=sys.stderr)
        return int(bool(wrong))
    for path in wrong:
        path.unlink(missing_ok=True)
    for path in wrong:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[path])
        print(f"wheel: {'wrote' if path in wanted else 'removed'} {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
