"""The model that a child starts with says what a reader would say of every sentence that demo and pages show."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import demo
import numpy as np
import pytest
import starting_model
from gpu_repo_runtime import testing
from gpu_repo_runtime.weights import lockfile

from tests.answers import FRAMEWORKS, AnswerSet
from tests.conftest import ROOT
from tests.shared import once, shared_folder

TYPES = ("service", "batch")
WORDS = ROOT / "templates/service/weights/words"
# Of the demo, of READMEs, and of the first lines that the batch job's demo shows.
SAID = {
    "Rain and strong wind are in the forecast for tomorrow": "weather",
    "The class has two functions and a loop": "computing",
    "rain and wind tomorrow": "weather",
    "the team won by one goal": "sport",
    "Rain and wind are in the forecast": "weather",
    "The team won the match by one goal": "sport",
    "Assert statements are a convenient way to insert debugging assertions": "computing",
}
# Written for this test, and not looked at when the table was made.
OTHERS = {
    "A thunderstorm flooded the streets last night": "weather",
    "It will be sunny with some clouds in the afternoon": "weather",
    "She finished the marathon in under three hours": "sport",
    "The striker scored twice in the final": "sport",
    "Bake the bread for forty minutes and let it cool": "food",
    "The soup needs more salt and pepper": "food",
    "The telescope discovered a planet around a distant star": "science",
    "Electrons move around the nucleus of an atom": "science",
    "The server crashed because of a bug in the parser": "computing",
    "The database query returns too many rows": "computing",
    "The bank raised its interest rates again": "money",
    "Shares of the company fell by ten percent": "money",
    "My grandmother met my grandfather at a wedding": "people",
    "He loves his wife and two daughters": "people",
    "The adjective stands before the noun in this sentence": "language",
    "How do you spell this word in French": "language",
}


# Prints vectors and answers of the model of a child; run by a Python that has its framework.
ASKED = """
import json, sys
from pathlib import Path
import numpy as np
from started.model import Model
model = Model()
model.load("cpu", Path(sys.argv[1]))
texts = json.loads(sys.argv[2])
vectors = np.asarray(model.embed(texts))[: len(texts)]
print(json.dumps([vectors.tolist(), [[one.label, one.score] for one in model.predict(texts)]]))
"""


@pytest.fixture(scope="module")
def model(render: Callable[[AnswerSet], Path]) -> Iterator[Any]:
    """Return the model of a plain service, loaded as a service loads it."""
    child = render(AnswerSet("service", "plain", project_name="started"))
    sys.path.insert(0, str(child / "src"))
    yield testing.loaded(importlib.import_module("started.model").Model, "cpu")
    sys.path.remove(str(child / "src"))


@pytest.mark.parametrize("sentence", SAID)
def test_what_the_demo_asks(model: Any, sentence: str) -> None:
    [answer] = model.predict([sentence])
    assert answer.label == SAID[sentence]


def test_what_it_was_not_made_for(model: Any) -> None:
    wrong = [s for s, a in zip(OTHERS, model.predict(list(OTHERS)), strict=True) if a.label != OTHERS[s]]
    assert len(wrong) <= 1, wrong


def test_the_demo_asks_nothing_else() -> None:
    source = Path(demo.__file__).read_text(encoding="utf-8")
    [asked] = [line for line in source.splitlines() if line.strip().startswith("texts = [")]
    for sentence in eval(asked.partition("= ")[2]):
        assert sentence in SAID, f"tools/demo.py asks about {sentence!r}: say here what is right"


def test_accents_long_words_and_signs(model: Any) -> None:
    assert model.words.split("tomorrow") != ()
    assert model.words.ids(["café"]).tolist() == model.words.ids(["cafe"]).tolist()
    assert model.words.ids(["x" * 100_000]).tolist() == [[0]]
    assert model.words.ids(["", "天気"]).tolist() == [[0], [0]]
    assert model.words.ids(["snow " * 9999]).shape == (1, 512)


@pytest.mark.slow
def test_no_framework_splits_words_otherwise(render: Callable[[AnswerSet], Path]) -> None:
    """So what is said above of one holds for all: they differ in who multiplies."""
    parts = set()
    for project_type in TYPES:
        for framework in FRAMEWORKS:
            answers = AnswerSet(project_type, framework)
            text = (render(answers) / "src" / answers.package_name / "model.py").read_text(encoding="utf-8")
            parts.add(text.partition("class Words:")[2].partition("\n\n\n")[0])
            assert "softmax(8 * " in text or "exp(8 * " in text, answers.id
    assert len(parts) == 1


def test_weights_lie_in_git_as_their_lock_says_and_with_their_licence() -> None:
    for project_type in TYPES:
        folder = ROOT / "templates" / project_type
        lock = lockfile.read(folder / "weights.lock")
        assert lockfile.misses(folder / "weights", lock) == ""
        found = {path: lockfile.sha256_of(folder / "weights" / path) for path in lock.files()}
        assert found == {path: file.sha256 for path, file in lock.files().items()}, f"{folder}: make starting-model"
        assert sorted(found) == ["words/LICENSE", "words/words.npz"]
        assert sum(file.size for file in lock.files().values()) < 4_000_000
    assert "Apache License" in (WORDS / "LICENSE").read_text(encoding="utf-8")
    attributes = subprocess.run(["git", "check-attr", "text", WORDS / "words.npz"], cwd=ROOT, capture_output=True)
    assert b"text: set" not in attributes.stdout, "git would change its bytes"


@pytest.mark.slow
def test_it_is_cut_by_its_rule() -> None:
    random = np.random.default_rng(0)
    pieces = ["[PAD]", *(f"[unused{n}]" for n in range(1994)), "the", "tomorrow", "##row", "天", "é", "!"]
    table = random.standard_normal((len(pieces), 384)).astype(np.float32)
    arrays = starting_model.cut(table, pieces)
    assert arrays["pieces"].tobytes().decode().split("\n") == ["", "the", "tomorrow", "##row", "!"]
    assert arrays["table"].shape == (5, starting_model.DIMENSION)
    assert not arrays["table"][0].any()
    assert np.abs(arrays["table"][1:]).max(axis=1).tolist() == [127] * 4


@pytest.mark.release  # it fetches the encoder
def test_made_anew_from_the_package_it_is_the_same_table(tmp_path: Path) -> None:
    made = starting_model.cut(*starting_model.encoder(tmp_path))
    with np.load(WORDS / "words.npz") as held:
        assert made["pieces"].tobytes() == held["pieces"].tobytes()
        np.testing.assert_allclose(made["scales"], held["scales"], rtol=1e-3)
        assert (np.abs(made["table"].astype(int) - held["table"]) > 1).mean() < 1e-3


@pytest.fixture
def framework_python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that returns a Python with a framework for the CPU."""

    def of(framework: str) -> Path:
        if framework == "torch":
            found: Path = request.getfixturevalue("torch_python")
            return found

        def make(folder: Path) -> None:
            uv = Path(sys.executable).parent / "uv"
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
            install = [uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python"]
            subprocess.run([*install, framework, "numpy", "pydantic"], check=True)

        return once(shared_folder(tmp_path_factory) / f"{framework}-venv", make) / "bin" / "python"

    return of


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "jax", pytest.param("tensorflow", marks=pytest.mark.release)])
def test_a_framework_computes_what_numpy_does(
    model: Any, render: Callable[[AnswerSet], Path], framework_python: Callable[[str], Path], framework: str
) -> None:
    """The table, the sums and the shares of topics are computed by the framework, in float32."""
    child = render(AnswerSet("service", framework, project_name="started"))
    texts = [*SAID, *OTHERS, ""]
    command = [framework_python(framework), "-c", ASKED, child / "weights", json.dumps(texts)]
    environment = os.environ | {"PYTHONPATH": str(child / "src"), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    vectors, answers = json.loads(done.stdout)
    np.testing.assert_allclose(np.array(vectors), np.asarray(model.embed(texts)), rtol=0, atol=1e-5)
    ours = model.predict(texts)
    assert [label for label, _ in answers[:-1]] == [one.label for one in ours[:-1]]
    assert [score for _, score in answers] == pytest.approx([one.score for one in ours], abs=1e-5)
