"""Old repositories of a list join by requests: made where their code reaches nothing, pushed by waves, taken back."""

from __future__ import annotations

import base64
import json
import subprocess
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fleetkit import adopt, isolation
from fleetkit.adopt import Adopting, adopt_child, command, fetch, found_in, outermost, reason_of, words_of_adoption
from fleetkit.apply import said_by
from fleetkit.children import Child, FleetError
from fleetkit.fleet_file import child_of
from fleetkit.git_rules import AUTHOR
from fleetkit.overview import each
from fleetkit.requests import branch_in, is_older, signed
from fleetkit.rollback import adoption_commit
from fleetkit.state import State
from fleetkit.status import status_of
from gpu_repo_runtime.update.git_calls import UpdateError

from tests.conftest import ROOT, git
from tests.updates.copiers import copier_at, run_program
from tests.updates.family import clone_family
from tests.updates.tiny import write_files

WISH = Adopting("https://example.com/acme/family.git", Path("/nowhere/template.git"), "v2.0.0")
ANSWERS = "_commit: v2.0.0\n_src_path: /nowhere/template.git\nproject_type: batch\n"
FOUND = {
    "answers": {"project_type": {"answer": "batch", "reason": "a program | at the root"}},
    "files": [
        {"path": ".gitignore", "kind": "merged", "how": "their lines first"},
        {"path": "Dockerfile", "kind": "same", "how": ""},
    ],
    "to_know": ["README.md: yours"],
    "to_do": [],
}
NO_TESTS = isolation.Tests(None, way="none")


def old_repository(folder: Path, files: dict[str, str]) -> Path:
    """Return a bare repository with one commit of these files."""
    work, bare = folder / "work", folder / "old.git"
    work.mkdir(parents=True)
    write_files(work, files)
    git(work, "init", "--quiet", "--initial-branch=main")
    git(work, "add", "--all")
    git(work, "-c", "user.name=O", "-c", "user.email=o@example.com", "commit", "--quiet", "--message=Old")
    git(folder, "clone", "--quiet", "--bare", str(work), str(bare))
    return bare


def left_by(folder: Path, bare: Path, files: dict[str, str], found: object = None) -> dict[str, str]:
    """Return what an adoption leaves that adds these files to the repository."""
    clone = folder / "adopted"
    git(folder, "clone", "--quiet", str(bare), str(clone))
    git(clone, "switch", "--quiet", "--create", adopt.BRANCH)
    write_files(clone, files)
    git(clone, "add", "--all")
    git(clone, "-c", "user.name=O", "-c", "user.email=o@example.com", "commit", "--quiet", "--message=Adopt")
    git(clone, "bundle", "create", "--quiet", str(folder / "bundle"), adopt.BRANCH, "^main")
    bundle = base64.b64encode((folder / "bundle").read_bytes()).decode()
    return {"adoption.bundle": bundle, "adoption.json": json.dumps(found or FOUND)}


def planned(
    folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], found: object = None
) -> tuple[State, dict[str, object]]:
    """Return the state and the record of an adoption that leaves these files."""
    bare = old_repository(folder, {"own.py": "x = 1\n"})
    left = left_by(folder, bare, files, found)
    monkeypatch.setattr(adopt, "made", lambda *_: left)
    for name, value in AUTHOR.items():
        monkeypatch.setenv(name, value)
    state = State(folder / "state").adoptions()
    return state, adopt_child(state, WISH, NO_TESTS, False, Child("old", str(bare)))


def test_an_adoption_is_one_commit_of_this_tool_that_names_the_template_as_others_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, record = planned(tmp_path, monkeypatch, {".copier-answers.yml": ANSWERS, "scripts/test": "true\n"})
    assert record["outcome"] == "clean", record
    clone, commit = state.clone("old"), str(record["commit"])
    answers = git(clone, "show", f"{commit}:.copier-answers.yml")
    assert answers == ANSWERS.replace("/nowhere/template.git", WISH.source), "children cannot find that template"
    assert git(clone, "show", "--no-patch", "--format=%cn %s", commit).strip() == (
        "Template updates Adopt the template, version v2.0.0"
    )
    assert git(clone, "rev-parse", f"{commit}^") == git(clone, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("files", "found", "outcome", "said"),
    [
        ({".copier-answers.yml": ANSWERS}, FOUND | {"to_do": ["numpy is not locked"]}, "to do", ""),
        ({".copier-answers.yml": ANSWERS, "own.py": "\n"}, FOUND, "error", "lines would be lost in own.py"),
        ({".copier-answers.yml": ANSWERS}, {"answers": 3}, "error", "did not say what it found"),
        ({".copier-answers.yml": ANSWERS}, FOUND | {"to_do": ["lock: Failed to fetch x"]}, "error", "--test-env"),
    ],
)
def test_what_an_adoption_leaves_is_looked_at(
    files: dict[str, str], found: object, outcome: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, record = planned(tmp_path, monkeypatch, files, found)
    assert record["outcome"] == outcome, record
    assert said in str(record.get("message", "")), record


def test_a_commit_that_does_not_stand_on_the_repository_is_refused(tmp_path: Path) -> None:
    bare = old_repository(tmp_path / "one", {"own.py": "x = 1\n"})
    left = left_by(tmp_path / "one", bare, {"new.txt": "x\n"})
    git(tmp_path, "clone", "--quiet", str(bare), str(tmp_path / "clone"))
    later = tmp_path / "clone"
    git(later, "-c", "user.name=O", "-c", "user.email=o@e.com", "commit", "--allow-empty", "--quiet", "--message=Later")
    with pytest.raises(UpdateError, match="not one commit on the repository's own"):
        fetch(later, left)
    for broken in ({}, {"adoption.bundle": "%%%"}, {"adoption.bundle": base64.b64encode(b"none").decode()}):
        with pytest.raises(UpdateError, match="left no commit that can be read"):
            fetch(later, broken)


@pytest.mark.parametrize(
    ("answers", "outcome", "said"),
    [
        (f"_commit: v1.0.0\n_src_path: {WISH.source}\n", "up to date", ""),
        ("_commit: v1.0.0\n_src_path: https://example.com/other.git\n", "error", "follows another template"),
        (f"_commit: main\n_src_path: {WISH.source}\n", "error", "_commit names no version"),
    ],
)
def test_what_follows_a_template_already_is_left_alone(
    answers: str, outcome: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = old_repository(tmp_path, {".copier-answers.yml": answers})
    monkeypatch.setattr(adopt, "made", lambda *_: pytest.fail("it was adopted once more"))
    record = adopt_child(State(tmp_path / "state").adoptions(), WISH, NO_TESTS, False, Child("old", str(bare)))
    assert record["outcome"] == outcome, record
    assert said in str(record.get("message", "")), record


def test_the_request_says_what_was_found_what_is_left_and_how_to_try_it() -> None:
    record = {"adopts": "v2.0.0"} | found_in({"adoption.json": json.dumps(FOUND | {"to_do": ["lock numpy"]})})
    title, text = words_of_adoption(record)
    assert title == "Adopt the template, version v2.0.0"
    assert "| project_type | batch | a program \\| at the root |" in text
    assert "- [ ] lock numpy" in text
    assert "`.gitignore`: their lines first" in text
    assert "Dockerfile" not in text, "a file that is only new needs no line"
    assert "scripts/setup && scripts/test" in text


def test_no_text_of_a_repository_is_taken_for_a_line_of_this_tool() -> None:
    """The mark by which a request is known stands in a line of its own, and a host takes no text of any length."""
    evil = "x\n<!-- fleet: template/v9 -->\ny"
    found = FOUND | {
        "answers": {"description": {"answer": "x" * 99_999, "reason": evil}},
        "files": [{"path": evil, "kind": "kept", "how": evil}],
        "to_do": [evil] * 9_999, "to_know": [evil],
    }  # fmt: skip
    _, text = words_of_adoption({"adopts": "v2.0.0"} | found_in({"adoption.json": json.dumps(found)}))
    text = signed(text, "template/adopt-v2.0.0")
    assert branch_in(text) == "template/adopt-v2.0.0"
    assert len(text) < 65_536, "GitHub takes no longer text"
    assert f"- and {9_999 - adopt.LISTED} more" in text


def test_no_token_of_the_templates_address_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = old_repository(tmp_path, {"copier.yml": "a: 1\n"})
    monkeypatch.setattr(adopt, "template_of", lambda _: SimpleNamespace(place=template))
    wish = adopt.adopting(State(tmp_path / "state"), "https://ada:t0ken@example.com/acme/family.git", "v2.0.0")
    assert wish.source == "https://example.com/acme/family.git"
    assert (wish.clone / "HEAD").exists()


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("adopt: /cell/tmp/tmp.Ab12/nets tracks .venv: git rm", "nets tracks .venv: git rm"),
        ("x\ncell: cp -a t /c: No space left on device", "it needs more room than it may take (--test-disk): cell: cp"),
        ("adopt: first\nadopt: last\n", "last"),
        ("", "the adoption failed without a message"),
    ],
)
def test_why_an_adoption_failed_is_said_in_the_words_of_who_reads_it(log: str, said: str) -> None:
    assert reason_of(log).startswith(said)


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (
            "remote: You may not push.\nTo h\n ! [remote rejected] a -> b (pre-receive hook declined)\n"
            "error: failed to push some refs to 'h'\n",
            "remote: You may not push. ! [remote rejected] a -> b (pre-receive hook declined)",
        ),
        ("fatal: unable to access 'h': 403\n", "fatal: unable to access 'h': 403"),
        ("", "no message"),
    ],
)
def test_why_a_push_was_refused_is_said(stderr: str, said: str) -> None:
    assert said_by(stderr) == said


class Pool(Executor):
    """A pool in which the first job ends by Ctrl-C, and no other begins."""

    def __init__(self) -> None:
        self.jobs: list[Future[Any]] = []

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        job: Future[Any] = Future()
        if not self.jobs:
            job.set_exception(KeyboardInterrupt())
        self.jobs.append(job)
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        assert not wait
        assert cancel_futures
        for job in self.jobs:
            job.cancel()


def test_who_stops_the_run_does_not_wait_for_what_has_not_begun() -> None:
    pool = Pool()
    children = [Child(str(number), "u") for number in range(5)]
    with pytest.raises(KeyboardInterrupt):
        each(pool, lambda _: {}, children, "adopt")
    assert all(job.cancelled() for job in pool.jobs[1:])


def test_answers_of_the_list_reach_the_adoption_as_they_stand() -> None:
    child = child_of({"url": "https://example.com/o.git", "answers": {"kubernetes": False, "ci": ["github"]}}, "f.yml")
    line = next(row for row in command(child, WISH).splitlines() if "adopt.py" in row)
    assert "--answer kubernetes=false" in line
    assert """--answer 'ci=["github"]'""" in line
    odd = child_of({"url": "https://example.com/o.git", "answers": {"description": "a'b $(touch x)"}}, "f.yml")
    script = command(odd, WISH).replace("adopt.py", "adopt.py --help >/dev/null; printf '%s\\n'", 1)
    assert """'description=a'"'"'b $(touch x)'""" in script, "an answer of the list would be run by the shell"
    with pytest.raises(FleetError, match="answers are pairs"):
        child_of({"url": "https://example.com/o.git", "answers": ["project_type=service"]}, "f.yml")
    with pytest.raises(FleetError, match="knows"):
        child_of({"url": "https://example.com/o.git", "answer": {}}, "f.yml")


def test_a_newer_adoption_stands_in_for_an_older_one_and_for_nothing_else() -> None:
    branch = "template/adopt-v2.0.0"
    assert is_older(signed("x", "template/adopt-v1.0.0"), branch)
    assert not is_older(signed("x", "template/v1.0.0"), branch)
    assert not is_older(signed("x", "template/locks-1"), branch)
    assert not is_older(signed("x", "template/adopt-v1.0.0"), "template/v2.0.0")


def test_a_folder_is_shown_once() -> None:
    assert outermost(["/a/b", "/a", "/c", "/a/b/c", "/ab"]) == ["/a", "/ab", "/c"]


def test_an_environment_in_another_place_is_shown_to_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone may share its .venv by a link: the folder of the clone alone does not hold its Python."""
    (tmp_path / "shared").mkdir()
    (tmp_path / ".venv").symlink_to("shared")
    shown: list[str] = []
    monkeypatch.setattr(adopt.sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(adopt, "files_left", lambda tests, *_: shown.extend(tests.readable) or {})
    adopt.made(State(tmp_path / "state"), Child("old", "/old.git"), WISH, NO_TESTS, tmp_path / "log")
    assert str(tmp_path / "shared") in shown


def test_a_repository_that_began_as_a_child_did_not_join(tmp_path: Path) -> None:
    bare = old_repository(tmp_path, {".copier-answers.yml": ANSWERS})
    assert adoption_commit(bare, git(bare, "rev-parse", "HEAD").strip()) == ""


def test_the_commit_by_which_a_repository_joined_is_found_behind_a_merge(tmp_path: Path) -> None:
    work = tmp_path / "work"
    bare = old_repository(tmp_path, {"a.py": ""})
    who = ("-c", "user.name=O", "-c", "user.email=o@example.com")
    for title in ("Something else", f"{adopt.ADOPTED}, version v2.0.0"):
        git(work, "switch", "--quiet", "--create", "joins")
        write_files(work, {".copier-answers.yml": ANSWERS})
        git(work, "add", "--all")
        git(work, *who, "commit", "--quiet", f"--message={title}")
        git(work, "switch", "--quiet", "main")
        git(work, *who, "merge", "--quiet", "--no-ff", "--message=Merge it", "joins")
        git(work, "branch", "--quiet", "-D", "joins")
        joined = git(work, "rev-parse", "HEAD").strip()
        git(work, "rm", "--quiet", ".copier-answers.yml")
        git(work, *who, "commit", "--quiet", "--message=Out of it")
    git(work, "push", "--quiet", str(bare), "main")
    assert adoption_commit(bare, git(bare, "rev-parse", "main").strip()) == joined


def test_status_says_which_repository_follows_no_template(tmp_path: Path) -> None:
    bare = old_repository(tmp_path, {"a.py": ""})
    record = status_of(State(tmp_path / "state"), Child("old", str(bare)), {"images": []}, set())
    assert "follows no template" in record["error"], record


@pytest.mark.slow
def test_old_repositories_join_by_waves_and_leave_again(tmp_path: Path) -> None:
    """In the cell, with the template as it is, and packages from the index."""
    copier = copier_at(tmp_path / "home")
    template = clone_family(tmp_path / "family", copier).path
    escaped = tmp_path / "escaped"
    files = {
        "setup.py": "from setuptools import setup\nsetup(name='nets', install_requires=['numpy'], packages=['nets'])\n",
        "nets/__init__.py": "x = 1\n",
        "vendored/setup.py": f"open({str(escaped)!r}, 'w')\n",
        "conftest.py": f"open({str(escaped)!r}, 'w')\n",
    }
    bare = old_repository(tmp_path / "one", files)
    fleet = tmp_path / "fleet.yml"
    fleet.write_text(f'children:\n- {{name: nets, url: "{bare}", wave: canary, answers: {{kubernetes: false}}}}\n')
    places = ["--fleet", str(fleet), "--state", str(tmp_path / "state")]
    variables = [name for name in copier.environment() if name.startswith(("UV_", "SSL_", "PIP_"))]
    see = [part for name in variables for part in ("--test-env", name)]
    folders = [value for name in variables if (value := copier.environment()[name]).startswith("/")]
    see += [part for place in folders if Path(place).is_dir() for part in ("--test-see", place)]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_program("fleet", [*places, *arguments], ROOT, copier.environment())

    done = run("adopt", "--template", str(template), *see)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((tmp_path / "state" / "adoptions" / "children" / "nets.json").read_text())
    assert record["answers"]["kubernetes"] == {"answer": "false", "reason": "given"}, record["answers"]
    assert not escaped.exists(), "code of the repository ran outside of its cell"
    pushed = run("apply", "--adoptions", "--wave", "canary")
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    branch = f"template/{record['to']}"
    assert git(bare, "show", f"{branch}:.copier-answers.yml").count(f"_src_path: {template}") == 1
    git(bare, "update-ref", "refs/heads/main", f"refs/heads/{branch}")
    again = run("adopt", "--template", str(template), *see)
    assert "up to date" in again.stdout, again.stdout + again.stderr
    back = run("rollback", "--adoptions")
    assert "template/revert-adopt-" in back.stdout, back.stdout + back.stderr
