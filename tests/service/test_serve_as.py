"""Weights in fewer bits: SERVE_AS in a service, and what scripts/bench --serve-as says that it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_repo_runtime.bench import quality
from gpu_repo_runtime.serving import reduced

from tests.batch.conftest import RUNTIME

MODEL = """
    import numpy as np
    from pydantic import BaseModel

    Input = str

    class Output(BaseModel):
        label: str
        score: float

    class Model:
        examples, tolerance = ("aa", "b", "ccc"), 1e-3

        def load(self, device: str) -> None:
            # What float16 keeps of these two is the same number: the label of half the inputs follows.
            self.edges = np.array([2048.0, 2049.0], np.float32)

        def predict(self, batch: list[Input]) -> list[Output]:
            apart = float(self.edges[1]) - float(self.edges[0])
            return [Output(label=str(int(apart) * (len(one) % 2)), score=apart / 3) for one in batch]
"""

# Compares what modules say before and after; run by a Python that has torch.
MODULES = """
import json, torch
from gpu_repo_runtime.serving.reduced import reduce

class Model:
    def __init__(self):
        torch.manual_seed(0)
        nn = torch.nn
        self.net = nn.Sequential(nn.EmbeddingBag(1000, 64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8))
        self.net.eval()

ids = torch.arange(800).reshape(100, 8)
told = {}
for form in ("float16", "int8"):
    model = Model()
    with torch.inference_mode():
        before = model.net(ids)
        made = reduce(model, form)
        after = model.net(ids)
    kind = str(after.dtype)
    told[form] = [made.before / made.after, float((before - after).abs().max() / before.abs().max()), kind]
print(json.dumps(told))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose model loses labels where its numbers are halved."""
    package = tmp_path / "src" / "halved"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model.py").write_text(textwrap.dedent(MODEL))
    return tmp_path


@pytest.fixture
def bench(project: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the load test of the project."""

    def run(*options: object) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": f"{RUNTIME}{os.pathsep}{project / 'src'}", "DEVICE": "cpu"}
        command = [sys.executable, "-m", "gpu_repo_runtime.bench", "--clients", "1", "--rates", "", "--seconds", "0.2"]
        return subprocess.run(
            [*command, *map(str, options)],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.mark.slow
def test_more_loss_than_is_allowed_is_refused_before_any_load(bench, project):
    done = bench("--serve-as", "float16", "--max-drop", "0.1")
    assert done.returncode == 1, done.stderr
    assert "right 100.0% before and 33.3% after, drop 0.6667 (at most 0.1)" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("bench: float16 loses 0.6667 of the right answers")
    assert not (project / "build").exists()


@pytest.mark.slow
def test_what_is_allowed_is_served_and_measured(bench, project):
    file = project / "mine.jsonl"
    rows = [{"instance": text, "prediction": {"label": "0"}} for text in ("aa", "bb", "c")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = bench("--serve-as", "float16", "--max-drop", "0", "--evaluate", file)
    assert done.returncode == 0, done.stderr
    assert "right 66.7% before and 100.0% after, drop 0.0000" in done.stdout, "more right answers are not a drop"
    report = json.loads((project / "build/bench/bench.json").read_text())
    assert report["quality"]["weights"] == {"before": 8, "after": 4}
    assert report["rows"][0]["answered"] > 0


@pytest.mark.slow
def test_the_owners_file_says_how_many_answers_are_right(bench, project):
    rows = [{"instance": text, "prediction": {"label": "0"}} for text in ("aa", "bb", "c", "dddd")]
    (project / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = bench("--evaluate", project / "mine.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "right: 75.0% of 4 inputs"


@pytest.mark.slow
def test_a_file_without_right_answers_proves_nothing(bench, project):
    (project / "mine.jsonl").write_text('{"instance": "a"}\n')
    done = bench("--evaluate", project / "mine.jsonl")
    assert done.returncode == 1
    assert "nothing says what is right" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "give JSON Lines such as"), ('{"instance": "a"}\n{"instance": "a", "prediction": 1}', "give all or none")],
)
def test_a_file_that_is_none_ends_with_one_line(bench, project, content, said):
    (project / "mine.jsonl").write_text(content)
    done = bench("--serve-as", "float16", "--evaluate", project / "mine.jsonl")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert said in line


@pytest.mark.slow
def test_a_running_service_cannot_be_changed_from_outside(bench):
    done = bench("--serve-as", "int8", "--url", "http://localhost:9")
    assert done.returncode == 2
    assert "leave --url out" in done.stderr


@pytest.mark.parametrize(
    ("right", "answer", "likeness"),
    [
        ({"label": "a", "score": 0.9}, {"label": "a", "score": 0.4}, 1.0),
        ({"label": "a"}, {"label": "b"}, 0.0),
        ([1.0, 0.0], [0.0, 1.0], 0.0),
        ([1.0, 1.0], [2.0, 2.0], 1.0),
        ([1.0, 1.0], [1.0], 0.0),
        ({"vector": [3.0, 4.0]}, {"vector": [3.0, 4.0]}, 1.0),
        (2.0, 1.0, 0.5),
        ("a", "a", 1.0),
    ],
)
def test_answers_are_alike_by_their_words_or_the_angle_of_their_numbers(right, answer, likeness):
    assert quality.likeness(right, answer) == pytest.approx(likeness)


def holder(**attributes: Any) -> Any:
    """Return an object with attributes, as a loaded model has them."""
    model = type("Model", (), {})()
    vars(model).update(attributes)
    return model


def test_arrays_of_numbers_are_halved_and_nothing_else():
    model = holder(table=np.ones((3, 4), np.float32), ids=np.arange(3), name="x")
    assert reduced.reduce(model, "float16") == reduced.Reduced(48, 24)
    assert (model.table.dtype, model.ids.dtype, model.name) == (np.float16, np.int64, "x")


@pytest.mark.parametrize(("form", "what"), [("int8", "modules of PyTorch"), ("float16", "float32")])
def test_a_model_without_anything_to_halve_is_refused(form, what):
    with pytest.raises(reduced.NotReduced, match=f"not .*{what}.*SERVE_AS={form}"):
        reduced.reduce(holder(ids=np.arange(3)), form)


@pytest.mark.slow
def test_modules_of_torch_take_half_or_a_quarter_and_say_nearly_the_same(torch_python):
    environment = os.environ | {"PYTHONPATH": str(RUNTIME), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([torch_python, "-c", MODULES], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["float16"][0] == pytest.approx(2)
    assert 3.5 < told["int8"][0] <= 4
    assert told["float16"][1] < 0.005
    assert told["int8"][1] < 0.03
    assert {told["float16"][2], told["int8"][2]} == {"torch.float32"}, "what comes out keeps its type"
