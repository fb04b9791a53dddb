"""What an adoption says: no secret of anybody's, and each thing that will not be as it was asked for."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import adopt
import pytest
from adoption import adopting, plan, words
from adoption.adopting import Adoption, Wish
from adoption.locks import Wanted, write_inputs
from adoption.repository import AdoptError, check, publish, unsigned
from adoption.requirements import Fitted
from adoption.texts import masked, masked_all
from adoption.tree import read_tree
from new import NewError

from tests.adopt.conftest import Make
from tests.adopt.test_detect import findings
from tests.conftest import ROOT, git

SECRETS = (
    "--index-url https://bob:s3cret@host/simple", "git+https://s3cret@host/x.git", "https://h/?token=s3cret",
    "Failed to fetch: `https://s3cret@host/simple/torch/`",
)  # fmt: skip


@pytest.mark.parametrize("text", SECRETS)
def test_no_secret_is_told(text: str, old: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "s3cret" not in masked(text)
    assert "s3cret" not in json.dumps(masked_all({"a": [{"b": text}]}))
    found = findings(old({"a.py": ""}))
    found.facts["packaging"] = text
    done = Adoption(tmp_path, "b", found, [plan.Entry("a", "kept", text)], "image", "v1", [text], [text])
    assert "s3cret" not in words.told(done, True) + words.as_json(done, True)
    assert adopt.refused(text, True) == 1
    assert "s3cret" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("text", SECRETS)
def test_no_secret_is_written(text: str, tmp_path: Path) -> None:
    wanted = Wanted([Fitted("a", text, text)], [], [], [(text, f"requirements.txt: {text}")])
    for name in write_inputs(tmp_path, "requirements", wanted):
        assert "s3cret" not in (tmp_path / name).read_text(), name


@pytest.mark.parametrize("taken", ["README.rst", "scripts/test", ".gitignore", "pyproject.toml"])
def test_what_cannot_make_room_is_refused(taken: str, old: Make) -> None:
    tree = read_tree(old({"a.py": "", "README.rst": "A\n", "Dockerfile": "FROM x\n"}))
    rendered = ["Dockerfile", "README.md", ".gitignore", "scripts/test", "pyproject.toml"]
    with pytest.raises(AdoptError, match=rf"TAKE={taken}: this cannot make room; what can: Dockerfile$"):
        plan.kept_paths(tree, rendered, {taken})


def test_a_place_that_is_taken_is_refused(old: Make) -> None:
    tree = read_tree(old({"a.py": "", "Dockerfile": "FROM x\n", "Dockerfile.before": "FROM y\n"}))
    with pytest.raises(AdoptError, match=r"Dockerfile\.before is there already"):
        plan.kept_paths(tree, ["Dockerfile"], {"Dockerfile"})


def test_what_makes_room_is_listed_where_it_goes(old: Make, tmp_path: Path) -> None:
    tree = read_tree(old({"a.py": "", "Dockerfile": "FROM x\n"}))
    (tmp_path / "render").mkdir()
    (tmp_path / "render" / "Dockerfile").write_text("FROM y\n")
    found = plan.entries(tree, tmp_path / "render", {}, {"Dockerfile"})
    assert [(entry.path, entry.kind) for entry in found] == [("Dockerfile", "taken"), ("Dockerfile.before", "moved")]


def test_a_link_is_called_one_and_once(old: Make) -> None:
    folder = old({"a.py": ""})
    (folder / "scripts").symlink_to("a.py")
    git(folder, "add", "--all")
    with pytest.raises(AdoptError) as refused:
        plan.kept_paths(read_tree(folder), ["scripts/test", "scripts/lint"], set())
    assert str(refused.value).count("scripts is a link") == 1


@pytest.mark.parametrize("branch", ["main/sub", "try"])
def test_a_branch_that_git_could_not_make_is_refused_at_once(branch: str, old: Make) -> None:
    folder = old({"a.py": ""})
    git(folder, "branch", "try/this")
    with pytest.raises(AdoptError, match="another name with TO="):
        check(folder, branch)


@pytest.mark.slow
def test_the_second_of_two_at_once_is_told_why(old: Make, tmp_path: Path) -> None:
    folder, clone = old({"a.py": ""}), tmp_path / "clone"
    git(folder, "clone", "--quiet", str(folder), str(clone))
    git(clone, "-c", "user.name=O", "-c", "user.email=o@e.com", "commit", "--allow-empty", "--quiet", "--message=One")
    publish(clone, folder, "adopted")
    git(clone, "-c", "user.name=O", "-c", "user.email=o@e.com", "commit", "--amend", "--quiet", "--message=Two",
        "--allow-empty")  # fmt: skip
    with pytest.raises(AdoptError, match="another adoption at the same time"):
        publish(clone, folder, "adopted")


@pytest.mark.parametrize(
    ("why", "hint"), [("framework cannot be 'x'", True), ("fatal: pack: No space left on device", False)]
)
def test_only_an_answer_is_said_to_be_one(
    why: str, hint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> str:
        raise NewError(why)

    monkeypatch.setattr(adopting, "start", start)
    wish = Wish(tmp_path, "b", {}, frozenset(), "template", None)
    with pytest.raises(AdoptError) as refused:
        adopting.rendered(wish, tmp_path / "new", ["framework=x"])
    assert ("DATA=" in str(refused.value)) == hint


def test_a_commit_that_is_not_signed_says_so(old: Make) -> None:
    folder = old({"a.py": ""})
    assert unsigned(folder) == ""
    git(folder, "config", "commit.gpgsign", "yes")
    assert "--amend --no-edit -S" in unsigned(folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_that_is_stopped_leaves_nothing(number: signal.Signals, old: Make, tmp_path: Path) -> None:
    folder, passing = old({"a.py": ""}), tmp_path / "passing"
    passing.mkdir()
    # A template that never answers: the adoption waits for it with its clone made, and another program with its own.
    waits = "import tempfile, time; tempfile.mkdtemp(); print('here', flush=True); time.sleep(60)"
    program = f"import sys, time; sys.argv = ['adopt', {str(folder)!r}]; sys.path[:0] = [{str(ROOT / 'hooks')!r}]\n"
    program += "import adopt, adoption.adopting as a, signal\nsignal.signal(signal.SIGTERM, adopt.stop)\n"
    program += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's job may be deaf to it
    program += f"import subprocess\na.rendered = lambda *_: subprocess.run([sys.executable, '-c', {waits!r}])\n"
    program += "sys.exit(adopt.main())\n"
    job = subprocess.Popen(
        [sys.executable, "-c", program], env={"PATH": "/usr/bin:/bin", "TMPDIR": str(passing)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "here\n"
    job.send_signal(number)
    _, said = job.communicate(timeout=20)
    assert (job.returncode, said) == (130, "adopt: stopped; nothing was changed\n")
    assert not list(passing.iterdir())
    assert git(folder, "branch", "--format=%(refname:short)").split() == ["main"]
