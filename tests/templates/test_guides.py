"""The guides for a framework and for a type, followed to the letter in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, git

MADE = re.compile(r"templates/(locks|\w+/wheels)/")  # by `make locks` and `make wheel`
RENDERED = "tests/templates/test_render.py"
# What of a render tells that it is whole; the suite holds it to the rest.
LOOKS = "(parses or no_template_is_left or written_by_hand or one_owner) and not no_kubernetes"
OWN_CODE = "each_framework"
ENTRY = """\
  - name: nimbus
    title: Nimbus
    choice: Nimbus on the CUDA libraries
    image_framework: plain
    provides: NumPy
    gpu: cupy-cudaNNx[ctk]>=14; sys_platform == 'linux'
    imports: [nimbus]
    packages: [nimbus]
"""
STREAM = """\
- name: stream
  choice: a job that never ends
  description: Classify what comes in
  runs: the job
  extras: batch,training
  tools: common
  look: [scripts/test]
"""


def guide(title: str) -> list[str]:
    """Return the numbered steps of a section of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?ms)^\d\. (.*?)(?=^\d\. |^$|\Z)", section)


def program(repository: Path, *command: str) -> str:
    """Run Python in the copy and return what it says; fail with it when the exit code is not 0."""
    told = {"PYTHONPATH": f"{repository / 'runtime/src'}:{repository / 'base-images'}"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TESTS_"))} | told
    done = subprocess.run(
        [sys.executable, *command], cwd=repository, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-6000:]}{done.stderr[-2000:]}"
    return done.stdout


def insert(path: Path, place: str, text: str) -> None:
    """Put a text in place of another one, which stands there once."""
    before = path.read_text(encoding="utf-8")
    assert before.count(place) == 1, f"{path}: {place!r} appears {before.count(place)} times"
    path.write_text(before.replace(place, text), encoding="utf-8")


def locks_of(repository: Path, like: str, new: str) -> None:
    """Take over the locks of the nearest: it asks for the same packages, so `make locks` would write the same."""
    for folder in (repository / "templates/locks").glob(like):
        shutil.copytree(folder, folder.with_name(re.sub(like.replace("*", "(.*)"), new, folder.name)))


def changed_by_hand(repository: Path) -> set[str]:
    """Return what differs from the first commit and is not made by a program."""
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message=Follow the guide")
    names = git(repository, "diff", "--name-only", "HEAD~1").split()
    return {name for name in names if not MADE.match(name)}


def own_tests(repository: Path, *chosen: str) -> str:
    """Run tests of the copy, which read the same tables."""
    return program(repository, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)


@pytest.fixture
def repository(template: Path, tmp_path: Path) -> Path:
    """Return a copy of the repository that a test may change."""
    return Path(shutil.copytree(template, tmp_path / "repository"))


@pytest.mark.slow
def test_a_framework_takes_the_five_files_of_its_guide(repository: Path) -> None:
    named = [re.search(r"`([\w/.<>-]+)`", step) for step in guide("Add a framework")]
    files = [match[1].replace("<name>", "nimbus") for match in named if match]
    assert len(files) == len(named) == 5
    table, template, device, training, smoke = (repository / name for name in files)
    insert(table, "images: #", f"{ENTRY}images: #")
    shutil.copy(repository / "templates/frameworks/plain.jinja", template)
    shutil.copy(device.with_name("with_cupy.py"), device)
    shutil.copy(training.with_name("with_plain.py"), training)
    shutil.copy(smoke.with_name("framework_torch.py"), smoke)
    locks_of(repository, "*-plain-*", r"\1-nimbus-on-plain-\2")
    assert changed_by_hand(repository) == set(files)
    said = own_tests(
        repository, "tests/runtime/test_device.py", RENDERED, "-k", f"{OWN_CODE} or nimbus-580 and {LOOKS}"
    )
    assert " passed" in said
    assert "nimbus" in program(repository, "-m", "gpu_smoke", "--help")
    assert "nimbus" in program(repository, "tools/demo.py", "--help")


@pytest.mark.slow
def test_a_type_takes_what_its_guide_says(repository: Path) -> None:
    steps = " ".join(guide("Add a project type"))
    said = ["templates/", "templates/shared/", "templates/types.yml", "templates/ownership.yml", "docs/", "mkdocs.yml"]
    assert [path for path in said if f"`{path}`" not in steps] == []
    shutil.copytree(repository / "templates/batch", repository / "templates/stream")
    asked = "project_type == 'batch'"
    for path in [repository / "copier.yml", *(repository / "templates").rglob("*")]:
        if path.is_file() and path.suffix not in (".whl", ".npz") and "locks" not in path.parts:
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(asked, "project_type in ('batch', 'stream')"), encoding="utf-8")
    types, owners = repository / "templates/types.yml", repository / "templates/ownership.yml"
    types.write_text(types.read_text(encoding="utf-8") + STREAM, encoding="utf-8")
    shared = re.sub(r"types: \[([a-z, ]*batch)", r"types: [\1, stream", owners.read_text(encoding="utf-8"))
    owners.write_text(shared, encoding="utf-8")
    locks_of(repository, "batch-*", r"stream-\1")
    (repository / "docs/stream.md").write_text("# A stream\n", encoding="utf-8")
    batch = "- Batch job: batch.md\n"
    insert(repository / "mkdocs.yml", batch, f"{batch}{' ' * 10}- Stream: stream.md\n")
    row = next(line for line in (repository / "README.md").read_text().splitlines() if line.startswith("| batch |"))
    insert(repository / "README.md", row, f"{row}\n| stream | a job that never ends |")
    changed_by_hand(repository)
    chosen = f"table_of_types or commands_of or stream-plain-580 and {LOOKS}"
    said_by_tests = own_tests(repository, "tests/test_readme.py", RENDERED, "-k", chosen)
    assert " passed" in said_by_tests
    assert "stream" in program(repository, "tools/demo.py", "--help")
