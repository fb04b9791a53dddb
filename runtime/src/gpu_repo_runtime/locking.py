"""Resolve the packages that a repository requires, under the versions of its base image, into requirements*.lock.

pyproject.toml lists them, with its extra `gpu` and its group `dev`; in an adopted repository, NAME.in, NAME-gpu.in and
NAME-dev.in do. Either all locks change or none. Exit codes: 0 done, 1 not resolved, 2 wrong use.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .package_index import rejected_login
from .project import read, required
from .script_error import ScriptError

OLDEST = 11  # the oldest Python 3 that scripts/setup takes
RUNTIME = Path("wheels/requirements.in")
DIRECT = re.compile(r"@\s*((git|hg|svn|bzr)\+|file:|\.{0,2}/)")
SINGLE = re.compile(r"[\w.-]+(\[.*?\])?\s*=[^=]")  # as conda writes it; uv does not name the line
PIP_AUDIT = ("pip-audit==2.10.1", "-S", "--disable-pip", "--require-hashes", "--progress-spinner=off", "-r/dev/stdin")
# Wheels only: the image has no compiler. No sources of uv: wheels/requirements.in names the runtime's wheel.
COMPILE = (
    *("--quiet", "--no-sources", "--universal", "--no-build", "--generate-hashes", "--no-emit-index-url"),
    *("--fork-strategy", "fewest", "--no-annotate", "--custom-compile-command", "scripts/lock"),
)


def floor(folder: Path = Path()) -> str:
    """Return the oldest Python that `requires-python` allows, for example 3.11."""
    requires = read(folder).get("project", {}).get("requires-python", "")
    found = re.search(r"(?:>=|==|~=)\s*3\.(\d+)", str(requires))
    return f"3.{max(OLDEST, int(found[1]) if found else 0)}"


def check_project() -> None:
    """Print what no lock contains. Raises ScriptError for a package from a folder or a git repository."""
    document = read()
    extras = {*document.get("project", {}).get("optional-dependencies", {})} - {"gpu"}
    groups = {*document.get("dependency-groups", {})} - {"dev"}
    if rest := [f"extra {one}" for one in sorted(extras)] + [f"group {one}" for one in sorted(groups)]:
        print(f"lock: no lock contains {', '.join(rest)}: use dependencies, or the group dev", file=sys.stderr)
    every = [one for texts in required().values() for one in texts]
    if wrong := next(filter(SINGLE.match, every), None):
        raise ScriptError(1, f"pyproject.toml requires {wrong!r}, with one =: write == for that version, or >=")
    found = [one for one in every if DIRECT.search(one)]
    sources = document.get("tool", {}).get("uv", {}).get("sources", {})
    found += [name for name, source in sources.items() if re.search("'(git|path)':", str(source))]
    if found:
        name = found[0].partition("@")[0].strip()
        told = f"pyproject.toml takes {name} from a folder or a git repository: it has no hash and is not in the image"
        raise ScriptError(1, f"{told}. Put its wheel into wheels/ or on your package index, and require its version")


def in_wheels() -> list[str]:
    """Return the names of the packages in wheels/, as locks write them."""
    return sorted({re.sub("[-_.]+", "-", wheel.name.split("-")[0]).lower() for wheel in Path("wheels").glob("*.whl")})


def without(lock: str, unwanted: re.Pattern[str]) -> str:
    """Return a lock without the entries that match."""
    return "".join(entry for entry in re.split(r"(?m)^(?=[\w.])", lock) if not unwanted.match(entry))


def sources(gpu: bool, files: str, with_project: bool) -> dict[str, list[str]]:
    """Return each lock with what is resolved into it: `files` are NAME of an adopted repository, else ""."""
    run = [f"{files}.in"] if files else []
    run = ["pyproject.toml", *run] if with_project or not files else run
    run += [str(RUNTIME)] if RUNTIME.is_file() else []
    locks = {"requirements.lock": run}
    if gpu:
        locks["requirements-gpu.lock"] = [*run, *([f"{files}-gpu.in"] if files else ["--extra", "gpu"])]
    return locks | {"requirements-dev.lock": [f"{files}-dev.in"] if files else ["--group", "dev"]}


def lock(uv: str, image: str, locks: dict[str, list[str]], options: list[str]) -> list[str]:
    """Write all locks and return the names of those that changed. Raises ScriptError."""
    if "pyproject.toml" in locks["requirements.lock"]:
        check_project()
    # A wheel in wheels/ may have been built again with the same version.
    options = [*options, *(word for name in in_wheels() for word in ("--upgrade-package", name))]
    with tempfile.TemporaryDirectory() as folder:
        under = ["--constraints", "constraints.txt"]
        for name, asked in locks.items():
            new = Path(folder, name)
            if Path(name).is_file():  # uv keeps its versions where they fit
                shutil.copyfile(name, new)
            command = [uv, "pip", "compile", *COMPILE, "--python-version", floor(), *under, *asked, *options]
            if subprocess.run([*command, "--output-file", str(new)], check=False).returncode:
                raise ScriptError(
                    1,
                    rejected_login()
                    or "nothing was changed: the packages cannot be resolved (see above). Each needs a wheel, and a "
                    f"version that fits the base image {image} (constraints.txt). Require another version, or take "
                    "another image with 'scripts/update --answer framework=...' or 'gpu_driver=...'",
                )
            if name == "requirements.lock":
                under += ["--constraints", str(new)]
        texts = {Path(name): Path(folder, name).read_bytes() for name in locks}
    changed = [path for path, text in texts.items() if not path.is_file() or path.read_bytes() != text]
    for path in changed:
        path.write_bytes(texts[path])
    return [str(path) for path in changed]


def audit(uv: str, locks: dict[str, list[str]]) -> int:
    """Print the known vulnerabilities of each lock; return 1 if there are any, or no database answered."""
    found = 0
    for name in filter(lambda one: Path(one).is_file(), locks):
        print(f"lock: auditing {name}", file=sys.stderr, flush=True)
        # The runtime is in wheels/ and on no index, so no database knows it.
        text = without(Path(name).read_text(encoding="utf-8"), re.compile(r"\S+ @ file:|(\./)?wheels/"))
        found |= subprocess.run([uv, "tool", "run", *PIP_AUDIT], input=text, text=True, check=False).returncode
    return found
