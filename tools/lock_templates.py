"""Resolve the locks that a fresh child starts with: templates/locks/<type>-[<framework>-on-]<image>/.

Each set of project type, framework and image is rendered and locked by the child's own scripts/lock, so that a new
child's locks are what its owner would get. The development tools are the same for most sets: what most have is in
templates/locks/tools/, and a set has a lock of its own only where it differs. Run by `make locks`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from copier import run_copy
from family import catalog, frameworks, types

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "templates" / "locks"
TOOLS = "requirements-dev.lock"
NAMES = ("requirements.lock", "requirements-gpu.lock", TOOLS)


def folder_of(project_type: str, framework: str, image: dict[str, object]) -> Path:
    """Return the folder of the locks, as copier.yml computes it in `locks`."""
    alone = framework == image["framework"]
    return LOCKS / f"{project_type}-{'' if alone else f'{framework}-on-'}{image['name']}"


def shared_tools(project_type: str, locks: Path = LOCKS) -> Path:
    """Return the lock of the development tools that most sets of this type start with."""
    return locks / "tools" / f"{types()[project_type]['tools']}.lock"


def lock(project_type: str, framework: str, image: dict[str, object], upgrade: bool) -> str:
    """Write the locks of one set; return one line about it. Raises CalledProcessError when resolving fails."""
    target = folder_of(project_type, framework, image)
    shared = shared_tools(project_type)
    before = {name: (target / name).read_bytes() for name in NAMES if (target / name).exists()}
    before.setdefault(TOOLS, shared.read_bytes() if shared.exists() else b"")
    for place in (*(target / name for name in NAMES if name != TOOLS), shared):  # the template includes them
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    with tempfile.TemporaryDirectory() as folder:
        child = Path(folder) / "child"
        answers = {
            "project_name": "child",
            "project_type": project_type,
            "framework": framework,
            "gpu_driver": str(image["driver_min"]),
            "framework_version": str(image.get("pinned_minor", "newest")),
        }
        run_copy(str(ROOT), child, data=answers, defaults=True, quiet=True, vcs_ref="HEAD")
        (child / ".venv").mkdir()
        (child / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
        for name in NAMES:
            if (child / name).exists() and not (child / name).stat().st_size:
                (child / name).unlink()
        command = ["bash", "scripts/lock", *(["--upgrade"] if upgrade else [])]
        subprocess.run(command, cwd=child, check=True, capture_output=True, text=True, env=dict(os.environ))
        changed = []
        for name in NAMES:
            source = child / name
            if not source.exists():
                (target / name).unlink(missing_ok=True)
            elif source.read_bytes() != before.get(name):
                shutil.copyfile(source, target / name)
                changed.append(name)
    return f"{target.name}: {'changed ' + ', '.join(changed) if changed else 'unchanged'}"


def take_back(folder: Path) -> None:
    """Remove a folder of locks that holds nothing yet."""
    if not any(lock.stat().st_size for lock in folder.glob("*.lock")):
        shutil.rmtree(folder)


def share_tools(locks: Path = LOCKS) -> None:
    """Keep each lock of development tools once: shared where most sets have it, else with the set that differs."""
    shared_by: dict[Path, list[Path]] = {}
    for project_type in types():
        shared_by.setdefault(shared_tools(project_type, locks), []).extend(sorted(locks.glob(f"{project_type}-*/")))
    for shared, folders in shared_by.items():
        held = {folder: next(p for p in (folder / TOOLS, shared) if p.exists()).read_bytes() for folder in folders}
        counted = Counter(text for text in held.values() if text)
        if not counted:
            shared.unlink(missing_ok=True)
            continue
        [(usual, _)] = counted.most_common(1)
        shared.write_bytes(usual)
        for folder, text in held.items():
            if text == usual:
                (folder / TOOLS).unlink(missing_ok=True)
            else:
                (folder / TOOLS).write_bytes(text)


def main() -> int:
    """Lock all sets, or those of the images named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="*", help="names of rows in base-images/catalog.yml (default: all)")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    options = parser.parse_args()
    os.environ["COPIER_SETTINGS_PATH"] = os.devnull  # a person's own defaults are not those of children
    rows = catalog()["images"]
    unknown = set(options.images) - {row["name"] for row in rows}
    if unknown:
        print(f"lock: no image {', '.join(sorted(unknown))} in base-images/catalog.yml", file=sys.stderr)
        return 2
    wanted = [
        row for row in rows if row["state"] != "retired" and (not options.images or row["name"] in options.images)
    ]
    sets = [
        (project_type, name, row)
        for row in wanted
        for name, one in frameworks().items()
        if one["image_framework"] == row["framework"]
        for project_type in types()
    ]
    failed = False
    with ThreadPoolExecutor(2) as pool:
        jobs = {folder_of(*one).name: pool.submit(lock, *one, options.upgrade) for one in sets}
        for name, job in jobs.items():
            try:
                print(job.result())
            except (subprocess.CalledProcessError, ValueError) as error:
                failed = True
                take_back(LOCKS / name)
                # Copier refuses an answer, such as a driver that gpu_driver does not offer yet.
                why = getattr(error, "stderr", f"{error}: add it to copier.yml first (CONTRIBUTING.md)")
                print(f"{name}: {why.strip()}", file=sys.stderr)
    share_tools()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
