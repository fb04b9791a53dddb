"""A company's copy: company.yml reaches new repositories, and upstream's next release merges into the copy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from copier import run_copy

from tests.conftest import git

OWN = {
    "name": "ACME",
    "registry": "registry.acme.test/ai",
    "ci": ["github", "gitlab"],
    "updates": "https://git.acme.test/platform/gpu-family.git",
    "package_index": "https://packages.acme.test/simple",
    "github_runners": {"cpu": "acme-cpu", "gpu": "acme-gpu", "deploy": "acme-deploy"},
    "runners": {"cpu": "acme-cpu", "gpu": "acme-gpu", "deploy": "acme-deploy"},
}
ROW = '  - {name: acme-cu13, framework: acme, driver_min: 580, state: supported, end_of_life: "2099-12-31"}\n'


@pytest.mark.slow
def test_a_company_s_copy(template: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "--quiet", str(template), "copy")
    catalog, upstream = copy / "base-images/catalog.yml", (template / "base-images/catalog.yml").read_text()
    catalog.write_text(upstream.replace("\n# Driver branches", f"{ROW}\n# Driver branches", 1))
    (copy / "company.yml").write_text(yaml.safe_dump(OWN))
    (copy / "base-images/ca/acme.crt").write_text("a certificate\n")
    git(copy, "add", "--all", "--force")
    git(copy, "commit", "--quiet", "--message=Our company")

    git(copy, "checkout", "--quiet", "-b", "upstream", "HEAD~1")
    (copy / "VERSION").write_text("9.9.9\n")
    catalog.write_text(upstream.replace('release: "', 'release: "9', 1))
    (copy / "copier.yml").write_text((copy / "copier.yml").read_text() + "\n# The next release.\n")
    git(copy, "commit", "--quiet", "--all", "--message=The next release")
    git(copy, "checkout", "--quiet", "main")
    git(copy, "merge", "--quiet", "--no-edit", "upstream")  # fails where there is a conflict
    assert ROW in catalog.read_text()

    child = tmp_path / "child"
    run_copy(str(copy), child, data={"project_name": "first"}, defaults=True, quiet=True, vcs_ref="HEAD")
    assert yaml.safe_load((child / ".copier-answers.yml").read_text())["registry"] == OWN["registry"]
    assert f"ARG BASE_IMAGE={OWN['registry']}/" in (child / "Dockerfile").read_text()
    assert 'authors = [{ name = "ACME" }]\n' in (child / "pyproject.toml").read_text()
    assert not (child / "Jenkinsfile").exists()
    assert "|| 'acme-gpu' }}" in (child / ".github/workflows/ci.yml").read_text()
    assert "GPU_TAG: acme-gpu\n" in (child / ".gitlab-ci.yml").read_text()
    shown = subprocess.check_output(
        ["scripts/shell", "printenv", "UV_DEFAULT_INDEX"], cwd=child, env={**os.environ, "RUN_IN": "venv"}, text=True
    )
    assert shown == f"{OWN['package_index']}\n"
    made = ["make", "-n", "--eval", "shown: ; $(REGISTRY) $(UV_DEFAULT_INDEX) $(TEMPLATE)", "shown"]
    alone = {"PATH": os.environ["PATH"]}  # without the variables of the make that runs this test
    for head, updates in ([], OWN["updates"]), (["VERSION=HEAD"], ""):  # unreleased commits are those of this clone
        shown = subprocess.check_output([*made, *head], cwd=copy, env=alone, text=True)
        assert shown == f"{OWN['registry']} {OWN['package_index']} {updates}\n"
