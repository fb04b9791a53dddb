"""Components of the Kubernetes base: a new service has those that it asks for, an older one keeps what it had."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.answers import COMPONENTS, AnswerSet
from tests.updates.family import Family
from tests.updates.program import Program
from tests.updates.test_switch import family as template  # noqa: F401 - a fixture
from tests.updates.test_update import RELEASED, family  # noqa: F401 - a fixture
from tests.updates.tiny import Child, Template, make_child

BEFORE = [version for version in RELEASED if version <= "v0.3.0"]
OVERLAY = "deploy/overlays/prod/kustomization.yaml"


def service(source: Family | Template, path: Path, *more: str) -> Child:
    """Render a service whose caller says nothing of components."""
    answers = AnswerSet("service", "plain").as_dict()
    del answers["components"]
    given = [part for name, value in answers.items() for part in ("--data", f"{name}={value}")]
    return make_child(source, path, *more, *given)


def components_of(child: Child) -> set[str]:
    """Return the components that can be switched on and are there."""
    return {name for name in COMPONENTS if child.has(f"deploy/base/{name}/kustomization.yaml")}


@pytest.mark.parametrize(
    "version", [pytest.param(v, marks=pytest.mark.release if v != BEFORE[-1] else pytest.mark.slow) for v in BEFORE]
)
def test_a_service_of_before_keeps_its_components_and_their_fixes(
    family: Family,  # noqa: F811
    tmp_path: Path,
    version: str,
) -> None:
    """Copier alone updates it: an overlay that takes one still finds it, with what the owner changed in it."""
    child = service(family, tmp_path / "child", "--vcs-ref", version)
    there = components_of(child)
    overlay = child.read(OVERLAY).replace("base/hpa", "base/keda")
    scaler = "deploy/base/keda/scaledobject.yaml"
    child.edit({OVERLAY: overlay, scaler: child.read(scaler) + "# mine\n"})
    child.updated("--vcs-ref", family.work_tree)
    assert (child.unmerged(), child.read(OVERLAY)) == (set(), overlay)
    assert there <= components_of(child) == set(COMPONENTS)
    assert child.read(scaler).endswith("# mine\n")
    assert yaml.safe_load(child.read(".copier-answers.yml"))["components"] == list(COMPONENTS)


@pytest.mark.slow
def test_a_new_service_has_those_that_it_asks_for(template: Template, program: Program, tmp_path: Path) -> None:  # noqa: F811
    """What an answer takes away and the owner changed stays, and is named."""
    child = service(template, tmp_path / "child")
    assert components_of(child) == set()
    assert program(child, "--answer", "components=[keda, login]") == 0, program.out + program.err
    child.commit("With two")
    assert components_of(child) == {"keda", "login"}
    login = "deploy/base/login/kustomization.yaml"
    child.edit({login: child.read(login) + "# mine\n"})
    assert program(child, "--answer", "components=[gateway]") == 3, program.out + program.err
    assert login in program.out + program.err
    assert (components_of(child), child.read(login).endswith("# mine\n")) == ({"gateway", "login"}, True)
