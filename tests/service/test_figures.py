"""The committed run is whole; tests/docs/test_figures.py compares the documentation with it."""

from __future__ import annotations

import json

from tests.conftest import ROOT

RESULT = json.loads((ROOT / "benchmarks/results/service.json").read_text())


def test_the_run_is_complete_and_says_what_it_ran_on() -> None:
    assert {"cpu", "cores", "memory_gib", "os", "python", "load"} <= RESULT["machine"].keys()
    assert {"litserve", "bentoml", "ray", "mosec", "fastapi", "uvicorn"} <= RESULT["versions"].keys()
    cells = {(cell["model"], cell["server"], cell["clients"]) for cell in RESULT["cells"]}
    servers = {server for _, server, _ in cells}
    models = {model for model, _, _ in cells}
    assert cells == {(model, server, clients) for model in models for server in servers for clients in (1, 16, 64)}
    assert all(cell["wrong"] == 0 for cell in RESULT["cells"] if cell["server"] == "this template")
