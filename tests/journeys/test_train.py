"""I train on my data and serve it, with scikit-learn and with PyTorch: docs/how-to/train-on-your-data.md. In order."""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.batch import training
from tests.journeys.child import Child
from tests.journeys.conftest import copied, move_environment

TYPE = "batch"
PAGE = "how-to/train-on-your-data.md"
OWN = Path(__file__).parent / "own"
pytestmark = [pytest.mark.xdist_group("how-to/predict-on-a-table.md"), pytest.mark.slow]


def shown(child: Child, section: str, language: str) -> list[str]:
    """Return the page's blocks of a section for other places than this repository."""
    found = [block for block in child.blocks if (block.section, block.language) == (section, language)]
    return [block.text for block in found if block.mark == "not run"]


def test_my_packages_are_installed_and_my_table_is_there(child: Child) -> None:
    """Without them the training says in one line what to add."""
    child.refused("scripts/train --output build/grapes", 'add "scikit-learn" to the dependencies in pyproject.toml')
    child.follow("1. Add the packages")
    child.sh(f".venv/bin/python {OWN}/wine.py")


def test_it_trains_what_my_task_defines(child: Child) -> None:
    child.sh("scripts/train --output build/starter --epochs 1", expect="its weights are in")
    child.follow("2. Write task.py")
    child.follow("3. Train")
    rows = list(csv.DictReader(child.path("build/grapes/metrics.csv").open()))
    assert len(rows) == 5
    assert float(rows[-1]["accuracy"]) > 0.8, rows


def test_a_service_serves_the_weights(child: Child, set_up: Callable[[str, str], Path], tmp_path: Path) -> None:
    ready = set_up("service", "plain")
    service = Child(shutil.copytree(ready, tmp_path / ready.name, symlinks=True, copy_function=copied))
    move_environment(ready, service.folder)
    [source], [model], [commands] = (shown(child, "4. Serve it", one) for one in ("toml", "python", "bash"))
    service.path("weights.toml").write_text(source.replace("../wine-grapes", str(child.folder)))
    service.path("src/<package>/model.py").write_text(model)
    project = service.path("pyproject.toml")
    project.write_text(project.read_text().replace('  "numpy>=2",\n', '  "numpy>=2",\n  "scikit-learn>=1.7",\n'))
    service.sh("scripts/lock && scripts/setup")
    lock, run = commands.splitlines()
    service.sh(lock)
    service.serve(run, "/readyz")
    wine = next(csv.DictReader(child.path("wines.csv").open()))
    numbers = [float(wine[f"x{number}"]) for number in range(1, 14)]
    ask = f"""-H 'Content-Type: application/json' -d '{{"instances": [{{"numbers": {numbers}}}]}}'"""
    answer = service.sh(f"curl -sf localhost:8000/predict {ask}")
    service.stop()
    assert f'"grape":{wine["label"]}' in answer, answer


def test_my_torch_module_is_trained_and_loaded(child: Child, torch_python: Path, tmp_path: Path) -> None:
    task, load = shown(child, "With PyTorch", "python")
    training.write_task(tmp_path, task)
    done = training.train(torch_python, tmp_path, tmp_path / "out", "--epochs", "5", "--batch-size", "16")
    assert done.returncode == 0, done.stderr
    rows = training.outcome(tmp_path / "out")["course"]
    assert float(rows[-1]["mean_error"]) < 0.8 * float(rows[0]["mean_error"]), rows
    network = task[task.index("class Sine") : task.index("class Task")]
    model = f"from pathlib import Path\nimport torch\n\n{network}\nclass Model:\n{indent(dedent(load), '    ')}"
    lines = (
        "",
        "model = Model()",
        "model.load('cpu', Path('weights'))",
        "assert abs(model.network(torch.ones(1, 1)) - 0.84) < 0.4",
    )
    asks = "\n".join(lines)
    program = [torch_python, "-c", model.replace('"sine"', '"own"') + asks]
    done = subprocess.run(program, cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
