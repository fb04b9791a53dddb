"""An owner's file that imports what the runtime has no more is named, with what takes its place."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
from gpu_repo_runtime import environment
from gpu_repo_runtime.update.gone import SHOWN, told_gone
from releases import released

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "runtime/src"
WHEEL = "wheels/gpu_repo_runtime-9.0-py3-none-any.whl"


@pytest.fixture
def child(tmp_path: Path) -> Path:
    """Return a repository with a wheel that lost a module and a name."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/requirements.in").write_text(f"gpu-repo-runtime[serving] @ file:{WHEEL}\n")
    listed = '"gpu_repo_runtime.old" = "use gpu_repo_runtime.new"\n"gpu_repo_runtime.new.name" = "use its heir"\n'
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as wheel:
        for name in ("__init__.py", "new.py", "serving/__init__.py"):
            wheel.writestr(f"gpu_repo_runtime/{name}", "")
        wheel.writestr("gpu_repo_runtime/retired.toml", listed)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import gpu_repo_runtime.old", "line 1: gpu_repo_runtime.old is gone: use gpu_repo_runtime.new"),
        ("\nfrom gpu_repo_runtime.old import x", "line 2: gpu_repo_runtime.old is gone: use gpu_repo_runtime.new"),
        ("from gpu_repo_runtime import old", "line 1: gpu_repo_runtime.old is gone: use gpu_repo_runtime.new"),
        ("def f():\n    from gpu_repo_runtime.new import name", "line 2: gpu_repo_runtime.new.name is gone: use its"),
        ("import gpu_repo_runtime.never", "line 1: gpu_repo_runtime.never is gone: nothing takes its place"),
        ("import gpu_repo_runtime.new, gpu_repo_runtime.serving", ""),
        ("from gpu_repo_runtime.new import other\nfrom . import old\nimport old", ""),
        ("# import gpu_repo_runtime.old", ""),
        ("import gpu_repo_runtime.old as", ""),
        ("\0", ""),
    ],
)
def test_an_import_of_what_is_gone_is_told_with_its_place(child: Path, text: str, told: str) -> None:
    (child / "tests").mkdir()
    (child / "tests/test_own.py").write_text(text)
    found = told_gone(child)
    assert found.startswith(f"runtime    tests/test_own.py, {told}") if told else not found, found


def test_only_the_owners_files_are_read_and_not_without_end(child: Path) -> None:
    (child / ".gitignore").write_text(".venv\n")
    (child / ".venv").mkdir()
    (child / ".venv/x.py").write_text("import gpu_repo_runtime.old")
    assert told_gone(child) == ""
    (child / "many.py").write_text("import gpu_repo_runtime.old\n" * (SHOWN + 3))
    assert told_gone(child).splitlines()[SHOWN:] == ["runtime    and 3 more such imports"]
    (child / "src/gpu_repo_runtime").mkdir(parents=True)
    assert told_gone(child) == "", "an ejected copy has its own modules"


def test_setup_says_it_too(child: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """After a plain `copier update`, which runs nothing of this."""
    (child / "own.py").write_text("import gpu_repo_runtime.old\n")
    (child / "requirements.lock").write_text(f"gpu-repo-runtime @ file:{WHEEL} \\\n")
    monkeypatch.chdir(child)
    monkeypatch.setattr(environment, "UV", Path("/bin/true"))
    assert environment.main([]) == 0
    assert "setup: runtime    own.py, line 1: gpu_repo_runtime.old is gone: use" in capsys.readouterr().err


@pytest.mark.needs("the history of git")
def test_whatever_a_release_had_is_there_or_named_with_what_takes_its_place() -> None:
    retired = tomllib.loads((SOURCE / "gpu_repo_runtime/retired.toml").read_text())
    assert released(ROOT), "no release was found"
    for version, commit in released(ROOT).items():
        command = ["git", "ls-tree", "-r", "--name-only", commit, "runtime/src"]
        names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
        for name in (name for name in names if name.endswith(".py")):
            module = name.removeprefix("runtime/src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            assert (ROOT / name).exists() or module in retired, f"{version} had {module}: name it in retired.toml"
    for module, instead in retired.items():
        assert importlib.util.find_spec(module) is None, f"{module} is there"
        for named in re.findall(r"gpu_repo_runtime[.\w]*\w", instead):
            assert importlib.util.find_spec(named), f"{module}: there is no {named}"
