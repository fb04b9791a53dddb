"""The locks follow the runtime and the image in the update itself, and nothing else in them changes."""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.templates.test_child import run
from tests.updates.family import Family
from tests.updates.test_family import start
from tests.updates.tiny import Child, Program, Template, make_child

LOCK = """# a comment of the owner
first==1.0 \\
    --hash=sha256:{0}
gpu-repo-runtime @ file:wheels/{1} \\
    --hash=sha256:{2}
zlast==2.0 \\
    --hash=sha256:{0}
"""


def wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> str:
    """Write a wheel and return its sha256."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def runtime(version: str) -> str:
    """Return the file name of a runtime."""
    return f"gpu_repo_runtime-{version}-py3-none-any.whl"


def release_runtime(template: Template, version: str, requires: tuple[str, ...] = (), image: str = "1.0") -> str:
    """Release a template with a runtime and an image that has one package; return the wheel's sha256."""
    template.release(
        f"v{version}",
        {
            "constraints.txt": f"# the packages of the image\nfirst=={image}\n",
            ".copier-ownership.yml": "seed: [requirements.lock]\n",
            "requirements.lock": LOCK.format("0" * 64, runtime(version), "1" * 64),
            "wheels/requirements.in": f"gpu-repo-runtime @ file:wheels/{runtime(version)}\n",
        },
    )
    digest = wheel(template.path / "wheels", "gpu_repo_runtime", version, requires)
    template.git("add", "--all")
    template.git("commit", "--quiet", "--amend", "--no-edit")
    template.git("tag", "--force", f"v{version}")
    return digest


def index(folder: Path) -> dict[str, str]:
    """Write an index of two packages; return the variables with which uv knows it and no other."""
    wheel(folder / "index", "newcomer", "3.0")
    wheel(folder / "index", "first", "1.1")
    return {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(folder / "index"), "UV_CACHE_DIR": str(folder / "uv")}


@pytest.fixture
def child(template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    """Return a child whose lock names the runtime of the first release."""
    for name, value in index(tmp_path).items():
        monkeypatch.setenv(name, value)
    digest = release_runtime(template, "1.0.0")
    lock = LOCK.format("0" * 64, runtime("1.0.0"), digest)
    return make_child(template, tmp_path / "child", edits={"requirements.lock": lock})


def test_the_lock_names_the_new_wheel_unless_told_not_to(template: Template, child: Child, program: Program) -> None:
    before, digest = child.read("requirements.lock"), release_runtime(template, "2.0.0")
    assert (program(child, "--no-lock"), child.read("requirements.lock")) == (0, before), program.err
    child.git("reset", "--quiet", "--hard")
    assert program(child) == 0, program.err
    assert child.read("requirements.lock") == LOCK.format("0" * 64, runtime("2.0.0"), digest)
    assert child.status()["requirements.lock"] == "M "
    assert [path.name for path in (child.path / "wheels").glob("*.whl")] == [runtime("2.0.0")]


@pytest.mark.slow
def test_a_package_that_the_new_runtime_requires_is_added_and_no_other(
    template: Template, child: Child, program: Program
) -> None:
    release_runtime(template, "2.0.0", requires=("newcomer>=3",))
    assert program(child) == 0, program.err
    lock = child.read("requirements.lock")
    assert re.findall(r"(?m)^[a-z-]+(?:==| @)", lock) == ["first==", "gpu-repo-runtime @", "newcomer==", "zlast=="]
    assert "# a comment of the owner" in lock
    assert "requirements.lock: newcomer 3.0" in program.out


@pytest.mark.slow
@pytest.mark.parametrize(("pinned", "after"), [("1.0", "1.1"), ("0.9", "0.9")], ids=["follows", "own pin"])
def test_a_version_of_the_image_is_followed_where_the_owner_followed_it(
    template: Template, child: Child, program: Program, pinned: str, after: str
) -> None:
    child.edit({"requirements.lock": child.read("requirements.lock").replace("first==1.0", f"first=={pinned}")})
    release_runtime(template, "2.0.0", image="1.1")
    assert program(child) == 0, program.err
    assert f"\nfirst=={after} \\\n" in child.read("requirements.lock")


@pytest.mark.slow
def test_what_cannot_be_resolved_is_a_to_do_with_the_command(
    template: Template, child: Child, program: Program
) -> None:
    release_runtime(template, "2.0.0", requires=("nowhere>=3",))
    before = child.read("requirements.lock")
    assert program(child) == 3
    assert "requirements.lock: run scripts/setup, then scripts/lock, and commit the locks (uv: " in program.out
    assert "nowhere" in program.out
    assert child.read("requirements.lock") == before


@pytest.mark.slow
def test_no_index_can_replace_the_wheel(family: Family, tmp_path: Path) -> None:
    child = start(family, tmp_path / "child", family.work_tree, AnswerSet("service", "plain"))
    (child.path / ".venv/bin").mkdir(parents=True)
    for name in ("uv", "python"):
        (child.path / ".venv/bin" / name).symlink_to(Path(sys.executable).with_name(name))
    before = child.read("requirements.lock")
    for version in ("99.0", "0.3.0+evil"):
        wheel(tmp_path / "evil", "gpu_repo_runtime", version)
    uv = Path(sys.executable).with_name("uv")
    asked = subprocess.run(
        [uv, "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--find-links", tmp_path / "evil", "-"],
        input="gpu-repo-runtime\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout == "gpu-repo-runtime==99.0\n", "the trap is set"
    links = ",".join(filter(None, (str(tmp_path / "evil"), os.environ.get("UV_FIND_LINKS"))))
    run(child.path, "scripts/lock", "--upgrade", UV_FIND_LINKS=links)
    [line] = [line for line in child.read("requirements.lock").splitlines() if "gpu-repo-runtime" in line]
    assert line in before
