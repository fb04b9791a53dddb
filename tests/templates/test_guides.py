"""The guide for a framework, followed to the letter in a copy of the repository."""

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
# What of a render tells that it is whole, and of the device that each framework can be asked.
LOOKS = "(parses or no_template_is_left or written_by_hand or one_owner) and not no_kubernetes"
READERS = ["tests/runtime/test_device.py", "tests/templates/test_render.py"]
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


def program(repository: Path, *command: str) -> str:
    """Run Python in the copy and return what it says; fail with it when the exit code is not 0."""
    told = {"PYTHONPATH": f"{repository / 'runtime/src'}:{repository / 'base-images'}"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TESTS_"))} | told
    done = subprocess.run(
        [sys.executable, *command], cwd=repository, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-6000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.slow
def test_a_framework_takes_the_five_files_of_its_guide(template: Path, tmp_path: Path) -> None:
    repository = Path(shutil.copytree(template, tmp_path / "repository"))
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    guide = page.partition("\n## Add a framework\n")[2].partition("\n## ")[0]
    files = [name.replace("<name>", "nimbus") for name in re.findall(r"(?m)^\d\. `([\w/.<>-]+)`", guide)]
    table, example, device, training, smoke = (repository / name for name in files)
    table.write_text(table.read_text().replace("images: #", f"{ENTRY}images: #"))
    shutil.copy(repository / "templates/frameworks/plain.jinja", example)
    shutil.copy(device.with_name("with_cupy.py"), device)
    shutil.copy(training.with_name("with_plain.py"), training)
    shutil.copy(smoke.with_name("framework_torch.py"), smoke)
    for folder in (repository / "templates/locks").glob("*-plain-*"):  # `make locks` would write the same
        shutil.copytree(folder, folder.with_name(folder.name.replace("-plain-", "-nimbus-on-plain-")))
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message=Follow the guide")
    changed = git(repository, "diff", "--name-only", "HEAD~1").split()
    assert {name for name in changed if not MADE.match(name)} == set(files)
    chosen = [*READERS, "-k", f"each_framework or nimbus-580 and {LOOKS}"]
    assert " passed" in program(repository, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)
    assert "nimbus" in program(repository, "-m", "gpu_smoke", "--help")
    assert "nimbus" in program(repository, "tools/demo.py", "--help")
