"""A small template with two releases, and fleet.yml for its children."""

import subprocess
from pathlib import Path

import yaml

from tests.updates.tiny import TEN_LINES, Template

SETTINGS = "_exclude: [copier.yml, CHANGELOG.md, .git]\n"
FIRST = {"a.txt": TEN_LINES, "b.txt": "b\n", "test.sh": "true\n", "dropped.txt": TEN_LINES}


def release_first(template: Template) -> None:
    """Release version 1.0.0 of a small template."""
    template.release("v1.0.0", FIRST, SETTINGS)


def release_second(template: Template) -> None:
    """Release version 2.0.0: a fix, a new file and a dropped one."""
    kept = {name: text for name, text in FIRST.items() if name != "dropped.txt"}
    changed = {"a.txt": "fixed\n" + TEN_LINES, "new.txt": "n\n", "CHANGELOG.md": "## 2.0.0\n\nA security fix.\n"}
    template.release("v2.0.0", kept | changed, SETTINGS)


def write_fleet(folder: Path, template: Path, canaries: dict[str, bool], rule: dict[str, str]) -> Path:
    """Write fleet.yml for children of folder/remotes/acme (name to whether it is a canary)."""
    address = rule["address"]
    children = [{"url": f"{address}acme/{name}.git", "canary": canary} for name, canary in canaries.items()]
    told = {"template": str(template), "children": children, "hosts": [rule]}
    (folder / "fleet.yml").write_text(yaml.safe_dump(told))
    return folder / "fleet.yml"


def branches(bare: Path) -> dict[str, str]:
    """Return the branches of a remote and their commits."""
    listed = ["git", "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"]
    lines = subprocess.run(listed, cwd=bare, check=True, capture_output=True, text=True).stdout.splitlines()
    return dict(line.split() for line in lines)  # type: ignore[misc]
