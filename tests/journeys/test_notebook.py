"""I call my model from a notebook in another folder: docs/how-to/work-in-a-notebook.md."""

from __future__ import annotations

import json

from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/work-in-a-notebook.md"


def test_a_notebook_predicts_with_my_model(child: Child) -> None:
    child.follow("Install the kernel")
    [cell] = [block.text.rstrip() for block in child.blocks if block.language == "python"]
    code = {"cell_type": "code", "execution_count": None, "id": "try", "metadata": {}, "outputs": [], "source": cell}
    kernel = {"kernelspec": {"display_name": "Python 3", "name": "python3"}}
    child.path("notebooks").mkdir()
    notebook = {"cells": [code], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    child.path("notebooks/try.ipynb").write_text(json.dumps(notebook))
    child.follow("Run it")


def test_lint_accepts_the_notebook(child: Child) -> None:
    child.sh("scripts/lint", expect="all good")
