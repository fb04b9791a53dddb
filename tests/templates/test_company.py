"""A company's copy: company.yml reaches new repositories, and upstream's next release merges into the copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from copier import run_copy

from tests.ci.children import commit
from tests.conftest import ROOT, copy_work_tree, git
from tests.images.test_ca_certificates import certificate, write
from tests.templates.own import new_row

OWN = {
    "name": "ACME",
    "registry": "registry.acme.test/ai",
    "ci": ["github", "gitlab"],
    "updates": "https://git.acme.test/platform/gpu-family.git",
    "package_index": "https://packages.acme.test/simple",
    "github_runners": {"cpu": "acme-cpu", "gpu": "acme-gpu", "deploy": "acme-deploy"},
    "runners": {"cpu": "acme-cpu", "gpu": "acme-gpu", "deploy": "acme-deploy"},
}
READERS = ["tests/images", "tests/docs/test_figures.py", "tests/templates/test_locks.py"]  # of the catalogue


def has_the_values(child: Path, company: dict[str, Any]) -> None:
    """Assert that a new repository has what company.yml says."""
    assert f"ARG BASE_IMAGE={company['registry']}/" in (child / "Dockerfile").read_text()
    assert company["name"] in (child / "pyproject.toml").read_text()
    assert company["package_index"] in (child / "scripts/lib.sh").read_text()
    files = {"github": ".github/workflows/ci.yml", "gitlab": ".gitlab-ci.yml", "jenkins": "Jenkinsfile"}
    for system, file in files.items():
        assert (child / file).exists() == (system in company["ci"])
        labels = company["github_runners" if system == "github" else "runners"].values()
        assert system not in company["ci"] or all(str(one) in (child / file).read_text() for one in labels)


def test_the_values_of_this_copy_reach_a_new_repository(template: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(template, tmp_path / "copy")
    shutil.copy(ROOT / "company.yml", copy)
    run_copy(str(copy), tmp_path / "child", data={"project_name": "first"}, defaults=True, quiet=True, vcs_ref="HEAD")
    has_the_values(tmp_path / "child", yaml.safe_load((ROOT / "company.yml").read_text()))


@pytest.mark.slow
def test_a_company_s_copy(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "--quiet", str(ROOT), "copy")
    git(copy, "checkout", "--quiet", "-B", "main")
    copy_work_tree(copy)
    commit(copy, "Upstream's release")
    (copy / "company.yml").write_text(yaml.safe_dump(OWN))
    write(copy / "base-images/ca/acme.crt", certificate("ACME"))
    new_row(copy, "acme-cu13", "torch-cu13")
    commit(copy, "Our company")

    git(copy, "checkout", "--quiet", "-b", "upstream", "HEAD~1")
    new_row(copy, "plain-cu14", "plain-cu13", last=False)
    commit(copy, "The next release")
    git(copy, "checkout", "--quiet", "main")
    git(copy, "merge", "--quiet", "--no-edit", "upstream")  # fails where there is a conflict
    run_copy(str(copy), tmp_path / "child", data={"project_name": "first"}, defaults=True, quiet=True, vcs_ref="HEAD")
    has_the_values(tmp_path / "child", OWN)
    made = ["make", "-n", "--eval", "shown: ; $(REGISTRY) $(UV_DEFAULT_INDEX) $(TEMPLATE)", "shown"]
    shown = subprocess.check_output(made, cwd=copy, env={"PATH": os.environ["PATH"]}, text=True)
    assert shown.split() == [OWN["registry"], OWN["package_index"], OWN["updates"]]
    site = tmp_path / "site"
    subprocess.run(
        [ROOT / ".venv/bin/mkdocs", "build", "--strict", "--quiet", "--site-dir", site], cwd=copy, check=True
    )
    assert OWN["registry"] in (site / "base-images.html").read_text()
    assert "acme-cu13" in (site / "drivers.html").read_text()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not release and not images", *READERS]
    subprocess.run(command, cwd=copy, check=True)
