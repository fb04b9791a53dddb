"""I require an API key: docs/how-to/require-an-api-key.md, with my own model of two fields. The steps run in order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.journeys.blocks import blocks
from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/require-an-api-key.md"
OWN = Path(__file__).parent / "own"
KEY = "-H 'Authorization: Bearer my-key'"
BROWSER = "chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=20000 --dump-dom"
ROUTE = """
    @app.get("/countries")
    async def countries() -> list[str]:
        return ["DE", "NZ"]
"""


@pytest.fixture(scope="module", autouse=True)
def my_model(child: Child) -> None:
    shutil.copy(OWN / "rules.py", child.path("src/<package>/model.py"))


def test_my_model_passes_the_starting_tests(child: Child) -> None:
    child.sh("MAX_TEXTS=1 scripts/test", expect="passed")  # as .env may set it, for the service


def test_the_starting_tests_stay_green_with_a_required_key(child: Child) -> None:
    child.follow("1. Make the key a required setting")
    with child.path("src/<package>/service.py").open("a") as own:
        own.write(ROUTE)


def test_lint_accepts_what_the_page_shows(child: Child) -> None:
    child.sh("scripts/lint", expect="all good")


def test_help_of_the_image_s_command_names_the_settings(child: Child) -> None:
    serve = "scripts/shell python -m gpu_repo_runtime.serving parcel_prices"
    child.sh(f"{serve} --help", expect="API_KEY")
    child.refused(f"{serve} --port 9000", expect="unrecognized arguments: --port")


def test_without_the_key_401_and_with_it_the_price(child: Child) -> None:
    child.follow("2. Set the key on your laptop")


def test_my_route_requires_the_key_too(child: Child) -> None:
    child.refused("curl -sSf localhost:8000/countries", "401")
    child.sh(f"curl -sSf {KEY} localhost:8000/countries", expect='["DE","NZ"]')


def test_the_key_is_not_in_git(child: Child) -> None:
    assert "my-key" not in child.sh("git add -A && git diff --cached")


def test_the_tests_stay_green_with_the_key_in_env(child: Child) -> None:
    child.sh("scripts/test", expect="passed")


def test_kubernetes_and_prometheus_need_no_key(child: Child) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        child.sh(f"curl -sSf localhost:8000{path}")


@pytest.mark.needs("chromium")
def test_docs_open_in_a_browser(child: Child) -> None:
    page = child.sh(f"{BROWSER} http://localhost:8000/docs")
    assert ("Authorize" in page, "/countries" in page) == (True, True), page[-3000:]


def test_generated_clients_know_of_the_key(child: Child) -> None:
    document = json.loads(child.sh("curl -sSf localhost:8000/openapi.json"))
    [asked] = document["paths"]["/predict"]["post"].get("security", document["security"])
    assert [document["components"]["securitySchemes"][key] for key in asked] == [{"type": "http", "scheme": "bearer"}]


def test_bench_sends_the_key(child: Child) -> None:
    child.follow("3. Measure and try the container")
    rows = json.loads(child.path("build/bench/bench.json").read_text())["rows"]
    assert [(row["clients"], row["failed"], row["answered"] > 0) for row in rows] == [(4, 0, True)]


def test_the_probe_sends_the_key(child: Child) -> None:
    child.sh("RUN_IN=venv scripts/probe", expect="started, answered and stopped")


def test_compose_passes_the_key_on(child: Child) -> None:
    service = yaml.safe_load(child.path("compose.yaml").read_text())["services"]["service"]
    assert [one["path"] for one in service["env_file"]] == [".env"]


def test_the_overlay_passes_the_key(child: Child) -> None:
    child.blocks += blocks(ROOT / "docs/how-to/pass-secrets.md")
    child.follow("3. Set it in the cluster")
