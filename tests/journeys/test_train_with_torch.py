"""I train my network with PyTorch and serve it: docs/how-to/train-on-your-data.md, "With PyTorch". In order."""

from __future__ import annotations

import csv
import json
import math
from textwrap import indent

from tests.journeys import test_train
from tests.journeys.child import Child

TYPE = "batch"
FRAMEWORK = "torch"
PAGE = test_train.PAGE
MODEL = (test_train.OWN / "sine.py").read_text()


def test_my_package_is_added_and_torch_stays_that_of_the_cpu(child: Child) -> None:
    child.sh("""sed -i 's/  "numpy>=2",/&\\n  "accelerate>=1.10",/' pyproject.toml && scripts/lock && scripts/setup""")
    child.sh(".venv/bin/python -c 'import torch; print(torch.version.cuda)'", expect="None")


def test_my_network_learns(child: Child) -> None:
    task, _ = child.shown("With PyTorch", "python")
    child.path("src/<package>/task.py").write_text(task)
    child.sh("scripts/train --output build/sine --epochs 5 --batch-size 16")
    rows = list(csv.DictReader(child.path("build/sine/metrics.csv").open()))
    assert float(rows[-1]["mean_error"]) < 0.8 * float(rows[0]["mean_error"]), rows


def test_a_service_serves_the_weights(child: Child, service: Child) -> None:
    task, load = child.shown("With PyTorch", "python")
    network = task[task.index("class Sine") : task.index("class Task")]
    assert network in MODEL
    assert indent(load, "    ") in MODEL
    service.path("src/<package>/model.py").write_text(MODEL)
    service.path("weights.toml").write_text(f'[sine]\nsource = "{child.folder}/build/sine/weights"\n')
    service.sh("scripts/weights lock && scripts/test", expect="passed")
    service.serve("scripts/run", "/readyz")
    ask = """-H 'Content-Type: application/json' -d '{"instances": [{"x": 1}]}'"""
    answer = json.loads(service.sh(f"curl -sf localhost:8000/predict {ask}"))
    assert abs(answer["predictions"][0]["sine"] - math.sin(1)) < 0.4, answer
