"""Another answer moves or names everything: no update ends with 0 over a repository that is half moved."""

from pathlib import Path

import pytest
import yaml
from gpu_repo_runtime.update.render import ANSWERS

from tests.answers import AnswerSet
from tests.updates.family import Family
from tests.updates.tiny import Child, Program, make_child

OWN = "from {0}.model import Model\n\nimport {0}.device\n\nprint(Model, {0}.device)\n"
LIBRARY, SERVICE = AnswerSet("library", "plain"), AnswerSet("service", "plain")


def start(family: Family, folder: Path, answers: dict[str, object]) -> Child:
    """Render a child of the newest release with some answers."""
    return make_child(family, folder, *(f"--data={name}={value}" for name, value in answers.items()))


@pytest.mark.parametrize(
    ("answers", "switch"),
    [
        pytest.param(LIBRARY, "package_name=other_name", marks=pytest.mark.slow),
        pytest.param(LIBRARY, "project_type=batch", marks=pytest.mark.slow),
        pytest.param(LIBRARY, "ci=[gitlab]", marks=pytest.mark.slow),
        pytest.param(SERVICE, "framework=torch", marks=pytest.mark.release),
    ],
    ids=lambda value: value if isinstance(value, str) else value.id,
)
def test_a_switch_without_edits_is_a_fresh_render(
    family: Family, program: Program, tmp_path: Path, answers: AnswerSet, switch: str
) -> None:
    child = start(family, tmp_path / "child", answers.as_dict())
    assert program(child, "--answer", switch) == 0, program.out + program.err
    child.commit("Switched")
    now = yaml.safe_load(child.read(ANSWERS))
    fresh = start(family, tmp_path / "fresh", {name: value for name, value in now.items() if name[0] != "_"})
    assert now == yaml.safe_load(fresh.read(ANSWERS))
    mine, theirs = (set(one.git("ls-files").splitlines()) for one in (child, fresh))
    assert mine == theirs, f"missing: {sorted(theirs - mine)}, left over: {sorted(mine - theirs)}"
    names = mine - {ANSWERS}
    assert [name for name in names if (child.path / name).read_bytes() != (fresh.path / name).read_bytes()] == []


@pytest.mark.slow
def test_a_package_moves_with_the_owners_modules(family: Family, program: Program, tmp_path: Path) -> None:
    child, old = start(family, tmp_path / "child", SERVICE.as_dict()), SERVICE.package_name
    model = child.read(f"src/{old}/model.py") + "\n\nMINE = 1\n"
    child.edit({f"src/{old}/model.py": model, f"src/{old}/own.py": "MINE = 2\n", "tools/use.py": OWN.format(old)})
    assert program(child, "--answer", "package_name=other_name") == 3, program.out + program.err
    assert f"still with the old package name {old}: tools/use.py" in program.out
    assert child.read("src/other_name/own.py") == "MINE = 2\n"
    assert child.read("src/other_name/model.py").endswith("MINE = 1\n")
    assert f"{old}." not in child.read("tests/test_service.py")
    assert not (child.path / "src" / old).exists()
    child.commit("Moved")
    history = child.git("log", "--follow", "--format=%s", "--", "src/other_name/own.py")
    assert history.splitlines() == ["Moved", "The owner's edit"]


@pytest.mark.slow
def test_a_type_that_goes_keeps_and_names_the_owners_files(family: Family, program: Program, tmp_path: Path) -> None:
    child, search = start(family, tmp_path / "child", LIBRARY.as_dict()), f"src/{LIBRARY.package_name}/search.py"
    child.edit({search: child.read(search) + "\n\nMINE = 1\n"})
    assert program(child, "--answer", "project_type=batch") == 3, program.out + program.err
    assert child.read(search).endswith("MINE = 1\n")
    assert f"conflict   {search}: the template dropped it" in program.out
    assert child.has(f"src/{LIBRARY.package_name}/model.py"), "the new type's files did not arrive"
