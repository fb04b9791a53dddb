"""The committed run is whole; tests/docs/test_figures.py compares the documentation with it."""

from __future__ import annotations

import json

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize("name", ["service", "service-uneven"])
def test_the_run_is_complete_and_says_what_it_ran_on(name: str) -> None:
    result = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())
    assert {"cpu", "cores", "memory_gib", "os", "python", "load"} <= result["machine"].keys()
    assert {"litserve", "bentoml", "ray", "mosec", "fastapi", "uvicorn"} <= result["versions"].keys()
    cells = {(cell["model"], cell["server"], cell["clients"]) for cell in result["cells"]}
    servers = {server for _, server, _ in cells}
    models = {model for model, _, _ in cells}
    assert cells == {(model, server, clients) for model in models for server in servers for clients in (1, 16, 64)}
    assert all(cell["wrong"] == 0 for cell in result["cells"] if cell["server"] == "this template")
