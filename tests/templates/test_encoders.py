"""The encoder of a README, followed to the letter: made by its program, locked, loaded, with right answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.conftest import git
from tests.templates.test_child import run
from tests.templates.test_starting_model import SAID as DEMO

SAID = DEMO | {"Assert statements are a convenient way to insert debugging assertions": "computing"}
# None of these has a word that model.py lists.
OTHERS = {
    "A thunderstorm flooded the streets last night": "weather",
    "It will be sunny with some clouds in the afternoon": "weather",
    "She finished the marathon in under three hours": "sport",
    "The striker scored twice in the final": "sport",
    "The server crashed because of a bug in the parser": "computing",
    "The database query returns too many rows": "computing",
}
# Cosines of the first sentence of SAID with the others, by sentence-transformers in PyTorch.
CLOSE = [1.0, 0.0748, 0.8358, 0.0306, 0.8545, 0.0063, 0.0392, 0.3812]
ASKED = """
import json, sys
import numpy as np
from gpu_repo_runtime import testing
from topic_finder.model import Model
model, texts = testing.loaded(Model, "cpu"), json.loads(sys.argv[1])
vectors = np.asarray(model.embed(texts))[: len(texts)].astype(float)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
print(json.dumps([(vectors[0] @ vectors.T).tolist(), [one.label for one in model.predict(texts)]]))
"""


def section(child: Path) -> str:
    """Return what the README says of a model of one's own."""
    return (child / "README.md").read_text(encoding="utf-8").partition("## Add your own model")[2].partition("\n## ")[0]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"(?s)```{language}\n(.*?)```", text)


def made(text: str, folder: Path, torch_build: str) -> Path:
    """Do what the README says once, in an environment of its own; return the folder of what was made."""
    uv, venv = Path(sys.executable).parent / "uv", folder / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    for command in re.findall(r"`/tmp/\w+/bin/pip install ([^`]+)`", text):
        words = [torch_build if word == "torch" else word for word in command.split()]
        subprocess.run([uv, "pip", "install", "--quiet", "--python", venv / "bin/python", *words], check=True)
    program, *_ = blocks(text, "python")
    (folder / "work").mkdir()
    done = subprocess.run(
        [venv / "bin/python", "-c", program], cwd=folder / "work", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "work"


def follow(child: Path, text: str, folder: Path | None) -> None:
    """Change weights.toml, the dependencies and the class as the README says."""
    [toml] = [one for one in blocks(text, "toml") if one.startswith("[encoder]")]
    (child / "weights.toml").write_text(toml.replace("/that/folder", str(folder)), encoding="utf-8")
    project = child / "pyproject.toml"
    named = re.findall(r"`\"([\w-]+)\"`", text.partition("to the dependencies")[0])
    wanted = [name for name in named if name != "onnxruntime-gpu"] + (["onnxruntime"] if "onnxruntime" in text else [])
    asked = "".join(f'\n  "{name}",' for name in dict.fromkeys(wanted))
    project.write_text(project.read_text().replace("dependencies = [", f"dependencies = [{asked}", 1), encoding="utf-8")
    model = child / "src/topic_finder/model.py"
    head, _, rest = model.read_text(encoding="utf-8").partition("class Model:")
    predict = rest[rest.index("    def predict") :]
    *_, own = blocks(text, "python")
    imports, _, body = own.partition("class Model:")
    imports += "".join(f"{line}\n" for line in re.findall(r"`(from [^`]+|import [^`]+)`", text))
    first = head.index("import ")
    model.write_text(f"{head[:first]}{imports}{head[first:]}class Model:{body}\n{predict}", encoding="utf-8")


@pytest.mark.release
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax", "plain"])
def test_the_encoder_of_the_readme_works(
    render: Callable[[AnswerSet], Path], tmp_path: Path, torch_build: str, framework: str
) -> None:
    child = tmp_path / "child"
    shutil.copytree(render(AnswerSet("service", framework)), child)
    git(child, "init", "--quiet")
    run(child, "scripts/setup", *(["--framework", torch_build] if framework == "torch" else []))
    text = section(child)
    follow(child, text, made(text, tmp_path, torch_build) if "/bin/pip install" in text else None)
    run(child, "scripts/weights", "lock")
    run(child, "scripts/lock")
    run(child, "scripts/setup", *(["--framework", torch_build] if framework == "torch" else []))
    run(child, "scripts/lint", "--fix")
    assert " passed" in run(child, "scripts/smoke")
    texts = [*SAID, *OTHERS]
    command = [child / ".venv/bin/python", "-c", ASKED, json.dumps(texts)]
    done = subprocess.run(command, cwd=child, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    close, labels = json.loads(done.stdout.splitlines()[-1])
    assert close[: len(CLOSE)] == pytest.approx(CLOSE, abs=1e-3)
    wrong = {said: label for said, label in zip(texts, labels, strict=True) if label != (SAID | OTHERS)[said]}
    assert len(wrong) <= 4, wrong
