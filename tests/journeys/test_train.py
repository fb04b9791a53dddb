"""I train on my data and serve it, with scikit-learn: docs/how-to/train-on-your-data.md. In order."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.journeys.child import Child

TYPE = "batch"
PAGE = "how-to/train-on-your-data.md"
OWN = Path(__file__).parent / "own"


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


def test_a_service_serves_the_weights(child: Child, service: Child) -> None:
    [source], [model], [commands] = (child.shown("4. Serve it", one) for one in ("toml", "python", "bash"))
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
    assert f'"grape":{wine["label"]}' in answer, answer
