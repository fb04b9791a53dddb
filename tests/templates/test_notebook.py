"""A notebook runs the model in a real Jupyter kernel, started outside of the project's folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime import environment

from tests.answers import AnswerSet

NEEDS = ("ipykernel", "nbclient", "nbformat", "numpy", "pydantic")
# Runs the notebook beside it as Jupyter does, and leaves what its cells said.
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
print("".join(output["text"] for cell in notebook.cells for output in cell.outputs if output.output_type == "stream"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("project_type", ["batch", "service"])
def test_a_notebook_predicts_with_the_model(
    render: Callable[[AnswerSet], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project_type: str
) -> None:
    child, outside = tmp_path / "child", tmp_path / "outside"
    shutil.copytree(render(AnswerSet(project_type, "plain")), child)
    outside.mkdir()
    python, uv = child / ".venv/bin/python", Path(sys.executable).parent / "uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, child / ".venv"], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *NEEDS], check=True)
    monkeypatch.chdir(child)
    environment.link_project()
    cells = [
        "from topic_finder.model import Model",
        "model = Model()\nmodel.load('cpu')",
        "answer = model.predict(['The team won the match by one goal'])[0]",
        "print(answer['label'] if isinstance(answer, dict) else answer.label)",
    ]
    code = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for n, source in enumerate(cells)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = {"cells": code, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (outside / "try.ipynb").write_text(json.dumps(notebook))
    own = {"JUPYTER_DATA_DIR": str(tmp_path / "jupyter"), "IPYTHONDIR": str(tmp_path / "ipython")}
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own
    command = [python, "-c", RUN, outside / "try.ipynb"]
    done = subprocess.run(command, cwd=outside, env=given, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "sport", done.stdout
