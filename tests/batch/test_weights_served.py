"""From training to serving: what scripts/train leaves is pushed, locked by a service and served: the same answers."""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.settings import Settings
from gpu_repo_runtime.weights import lockfile

from tests.answers import AnswerSet
from tests.batch import training
from tests.batch.conftest import RUNTIME

MODEL = """
import pickle
from pathlib import Path

from pydantic import BaseModel

Input = str


class Output(BaseModel):
    chapter: int
    score: float


class Model:
    examples = ("one line", "another")
    tolerance = 1e-4

    def load(self, device: str, weights: Path) -> None:
        self.estimator = pickle.loads((weights / "chapters" / "best.pkl").read_bytes())

    def predict(self, batch: list[Input]) -> list[Output]:
        from topic_finder.chapters import word_ids

        chances = self.estimator.predict_proba(word_ids(batch))
        return [Output(chapter=int(row.argmax()), score=float(row.max())) for row in chances]
"""


def weights(child: Path, cache: Path, *arguments: str) -> str:
    """Run the program behind scripts/weights in a child, and return what it printed."""
    command = [sys.executable, "-m", "gpu_repo_runtime.weights", *arguments]
    environment = os.environ | {"PYTHONPATH": str(RUNTIME), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, cwd=child, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow  # its parts are quick in tests/runtime/test_weights.py and test_training.py
def test_trained_pushed_and_served(render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = render(AnswerSet("batch", "plain", training=True))
    process = training.start(
        sys.executable, batch, "topic_finder", tmp_path / "out", "--epochs", "1", "--device", "cpu"
    )
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert f"a service takes them from {tmp_path}/out/weights" in told
    pushed = tmp_path / "pushed"
    lines = weights(batch, tmp_path / "one", "push", str(pushed), "--from", str(tmp_path / "out/weights"))
    assert lines == f'[topic_finder]\nsource = "{pushed}"\n'

    service = tmp_path / "service"
    shutil.copytree(render(AnswerSet("service", "plain", project_name="chapters")), service)
    (service / "src/chapters/model.py").write_text(MODEL)
    (service / "weights.toml").write_text(lines.replace("[topic_finder]", "[chapters]"))
    weights(service, tmp_path / "two", "lock")
    weights(service, tmp_path / "three", "fetch")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "three"))
    monkeypatch.syspath_prepend(str(service / "src"))
    monkeypatch.syspath_prepend(str(batch / "src"))
    chapters = importlib.import_module("topic_finder.chapters")
    texts = [text for text, _ in chapters.lines_of_chapters()[::40]]
    estimator = pickle.loads((tmp_path / "out/best.pkl").read_bytes())
    expected = estimator.predict_proba(chapters.word_ids(texts)).argmax(axis=1).tolist()
    model = importlib.import_module("chapters.model").Model()
    with TestClient(create_app(model, Settings(device="cpu", max_texts=len(texts)))) as client:
        answers = client.post("/predict", json={"instances": texts}).json()["predictions"]
        assert client.get("/livez").json()["weights"] == lockfile.read(service / "weights.lock").digest
    assert [one["chapter"] for one in answers] == expected
    assert len(set(expected)) > 1, "it says the same of every line"
    for name in ("topic_finder", "chapters"):
        for module in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[module]
