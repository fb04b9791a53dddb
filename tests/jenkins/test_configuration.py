"""The example of docs/jenkins has what the pipelines need: agents, credentials, variables.

No Jenkins has read it.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

EXAMPLE = ROOT / "docs" / "jenkins"
PIPELINES = [ROOT / "Jenkinsfile", ROOT / "hooks" / "fleet.Jenkinsfile", ROOT / "templates" / "shared" / "Jenkinsfile"]
COMPANY = yaml.safe_load((ROOT / "tests" / "company.yml").read_text())["runners"]
TEXT = "\n".join(file.read_text() for file in PIPELINES)
TEXT = re.sub(r"\{\{ company\.runners\.(\w+) \}\}", lambda found: str(COMPANY[found[1]]), TEXT)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLE / "casc.yaml").read_text())
    return found


def default(name: str) -> str:
    """Return the default of a parameter or a variable of the environment, the same in every pipeline."""
    [found] = set(re.findall(rf"(?:name: '{name}', defaultValue:|env\.{name}(?:\?\.trim\(\))? \?:) '([^']*)'", TEXT))
    return str(found)


def test_every_label_has_an_agent(example: dict[str, Any]) -> None:
    wanted = {default(name) for name in set(re.findall(r"label (?:params|\"\$\{env)\.(\w+)", TEXT))}
    wanted |= set(re.findall(r"agent \{ label '(\w+)'", TEXT))
    labels = [node["permanent"]["labelString"].split() for node in example["jenkins"]["nodes"]]
    assert wanted == {label for one in labels for label in one}


def test_every_credential_is_there_and_of_its_kind(example: dict[str, Any]) -> None:
    entries = example["credentials"]["system"]["domainCredentials"][0]["credentials"]
    found = {next(iter(entry.values()))["id"]: next(iter(entry)) for entry in entries}
    used = re.findall(r"(\w+)\(credentialsId: (?:params\.(\w+)|[\"']([^\"']+)[\"'])", TEXT)
    assert used
    for kind, parameter, text in used:
        # A key to sign with is left out where its parameter is empty, as it is by default.
        name = default(parameter) or parameter.lower().replace("_", "-") if parameter else text
        name = name.replace("${params.HOST}", "github")
        assert found.get(name) == kind, f"{name}: {found.get(name)}, where the pipelines bind {kind}"
    text = (EXAMPLE / "casc.yaml").read_text()
    secrets = re.findall(r"(?:password|secret|secretBytes|privateKey): (\S+?)[,}\s]", text)
    assert [secret for secret in secrets if not secret.startswith('"${')] == [], "a secret in the example"


def test_the_environment_has_what_the_pipelines_read(example: dict[str, Any]) -> None:
    variables = {one["key"] for one in example["jenkins"]["globalNodeProperties"][0]["envVars"]["env"]}
    assert set(re.findall(r"env\.(\w+)(?:\?\.trim\(\))? \?:", TEXT)) | {"REGISTRY", "PACKAGE_INDEX_URL"} == variables
