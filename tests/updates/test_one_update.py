"""One update of one child: no edit is lost, conflicts are git's own, and an error changes nothing."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shared import RUNTIME
from tests.updates.tiny import MARKER, TEN_LINES, Child, Program, Template, make_child, write_files

EDITED = TEN_LINES + "owner's line\n"
FIXED = "fixed\n" + TEN_LINES
Damage = Callable[[Template, Child], object]


def test_each_file_is_listed_and_a_dry_run_prints_the_same(
    template: Template, tmp_path: Path, program: Program
) -> None:
    names = ("updated", "kept", "merged", "dropped", "gone", "opted-out")
    before = {name: f"{name}\n{TEN_LINES}" for name in names}
    template.release("v1.0.0", before | {"conflict": TEN_LINES})
    child = make_child(template, tmp_path / "child")
    child.edit({name: before[name] + "owner's line\n" for name in ("kept", "merged", "dropped")})
    child.edit({"conflict": "mine\n" + TEN_LINES, "opted-out": None, "both": "own one\nown two\n"})
    fixed = {name: f"fixed\n{before[name]}" for name in ("updated", "merged", "opted-out")}
    new = {"kept": before["kept"], "added": "new\n", "both": "the template's\n", "conflict": FIXED}
    template.release("v2.0.0", fixed | new)
    expected = {
        "updated": "updated", "merged": "merged", "conflict": "conflict", "dropped": "conflict", "gone": "removed",
        "added": "added", "opted-out": "opted out", "both": "conflict",
    }  # fmt: skip
    assert program.files(child, "--dry-run") == expected
    assert child.status() == {}
    assert child.git("worktree", "list").count("\n") == 1, "the scratch work tree is left behind"
    assert program.files(child) == expected
    assert '"code": 3' in program.out
    assert child.unmerged() == {"conflict", "dropped", "both"}
    assert child.read("dropped").endswith("owner's line\n")
    assert child.read("merged") == f"fixed\n{before['merged']}owner's line\n"
    assert "mine" in child.read("conflict")
    assert {"own one", "own two", "the template's"} <= set(child.read("both").splitlines())
    assert not child.has("opted-out")


def test_a_fix_reaches_files_that_either_side_moved(template: Template, tmp_path: Path, program: Program) -> None:
    files = {f"{name}.txt": "".join(f"{name} {line}\n" for line in range(20)) for name in ("theirs", "mine")}
    template.release("v1.0.0", files)
    child = make_child(template, tmp_path / "child", edits={"theirs.txt": files["theirs.txt"] + "own\n"})
    child.git("mv", "mine.txt", "elsewhere.txt")
    child.commit("Moved")
    fixed = {"sub/theirs.txt": "fix\n" + files["theirs.txt"], "mine.txt": "fix\n" + files["mine.txt"]}
    template.release("v2.0.0", fixed)
    assert program.files(child) == {"sub/theirs.txt": "renamed", "elsewhere.txt": "merged"}
    assert child.read("sub/theirs.txt") == "fix\n" + files["theirs.txt"] + "own\n"
    assert child.read("elsewhere.txt") == "fix\n" + files["mine.txt"]


def test_names_modes_binary_files_and_line_ends_of_the_owner_stay(
    template: Template, tmp_path: Path, program: Program
) -> None:
    names = ["ü b.txt", "-dash", "[x].txt", "a:b", "quote\"s'"]
    texts = {name: f"{name}\n{TEN_LINES}" for name in names}
    files = {"run.sh": TEN_LINES, "a.bin": "\0one", "b.bin": "\0one", "crlf.txt": TEN_LINES}
    template.release("v1.0.0", files | texts)
    child = make_child(template, tmp_path / "child")
    (child.path / "run.sh").chmod(0o755)
    (child.path / "crlf.txt").write_bytes(EDITED.replace("\n", "\r\n").encode())
    child.edit({"a.bin": "\0mine"} | {name: f"{texts[name]}owner's line\n" for name in names})
    fixed = {"run.sh": FIXED, "a.bin": "\0two", "b.bin": "\0two", "crlf.txt": FIXED}
    template.release("v2.0.0", fixed | {name: f"fixed\n{texts[name]}" for name in names})
    assert program.files(child).items() >= dict.fromkeys(names, "merged").items()
    assert [name for name in names if not child.read(name).endswith("owner's line\n")] == []
    assert child.unmerged() == {"a.bin"}
    assert (child.read("a.bin"), child.read("b.bin")) == ("\0mine", "\0two")
    assert child.git("ls-files", "--stage", "run.sh").startswith("100755")
    after = (child.path / "crlf.txt").read_bytes()
    assert after.endswith(EDITED.replace("\n", "\r\n").encode()), "the bytes of lines that nobody changed"
    assert after.startswith(b"fixed")


def test_an_ignored_file_in_the_way_stops_the_update(template: Template, tmp_path: Path, program: Program) -> None:
    """The owner's file, or one of the template's that a global ignore rule hid from the first `git add`."""
    template.release("v1.0.0", {".gitignore.jinja": ".env\n", "x.whl": "x\n"})
    child = make_child(template, tmp_path / "child")
    (child.path / ".git/info/exclude").write_text("*.whl\n")
    child.git("rm", "--quiet", "--cached", "x.whl")
    child.git("commit", "--quiet", "--message=As a global ignore rule leaves it")
    write_files(child.path, {".env": "SECRET=1\n"})
    template.release("v2.0.0", {".gitignore.jinja": ".env\n", "x.whl": "y\n", ".env": "SECRET=\n"})
    assert program(child) == 1
    assert "the template has .env, x.whl, which exists here and is not in git" in program.err
    assert (child.read(".env"), child.status()) == ("SECRET=1\n", {})


@pytest.mark.slow
def test_an_added_file_that_git_ignores_is_staged_and_named(
    template: Template, tmp_path: Path, program: Program
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child", edits={".gitignore": "wheels/\n"})
    template.release("v2.0.0", {"a.txt": "a\n", "wheels/x.whl": "x\n"})
    assert program(child) == 4
    assert "added      wheels/x.whl: an ignore rule hides it" in program.out
    child.git("commit", "--quiet", "--message=Update")
    assert "wheels/x.whl" in child.git("ls-tree", "-r", "--name-only", "HEAD")


@pytest.mark.slow
def test_paths_that_the_owner_excluded_are_left_alone(template: Template, tmp_path: Path, program: Program) -> None:
    template.release("v1.0.0", {"deploy/a.yaml": "1\n", "b.txt": "1\n"})
    child = make_child(template, tmp_path / "child", edits={".copier-leave-alone": "# ours\n/deploy/\n"})
    template.release("v2.0.0", {"deploy/a.yaml": "2\n", "deploy/new.yaml": "2\n", "b.txt": "2\n"})
    assert program.files(child) == {"b.txt": "updated"}
    assert child.read("deploy/a.yaml") == "1\n"


def test_the_output_has_what_owners_of_this_type_must_do_and_ends_with_the_next_command(
    template: Template, tmp_path: Path, program: Program
) -> None:
    settings = "_exclude: [copier.yml, CHANGELOG.md, .git]\nproject_type: {type: str, default: batch}\n"
    settings += "training: {type: bool, default: false}\n"
    template.release("v1.0.0", {"a.txt": "a\n"}, settings)
    child = make_child(template, tmp_path / "child")
    mine = ["Live services and batch jobs: one.", "Batch: two.", "`x` ends as a service does: three."]
    entries = "".join(f"- {one}\n" for one in [*mine, "Service: 4.", "Platform teams: 5.", "Batch, training: 6."])
    log = (
        "# Changes\n\n## 3.0.0\n\n**You have to act**\n- Later.\n\n"
        f"## 2.0.0\n\n**You have to act**\n{entries}- Run\n  `a`.\n\n"
        "**Changed**\n- A fix.\n\n## 1.0.0\n\n**You have to act**\n- Before.\n"
    )
    template.release("v2.0.0", {"a.txt": "b\n", "CHANGELOG.md": log}, settings)
    assert program(child, "--dry-run", "--diff") == 0
    assert "-a\n+b\n" in program.out
    assert "\nnext: the same command without --dry-run\n" in program.out
    assert program.result(child)["act"] == [f"2.0.0: {one}" for one in [*mine, "Run `a`."]]
    child.git("reset", "--quiet", "--hard")
    assert program(child) == 0
    assert "You have to act:\n  - 2.0.0: Live services" in program.out
    assert program.out.splitlines()[-1] == (
        'next: scripts/setup && scripts/test && git commit -m "Update the template to v2.0.0"'
    )


def test_own_keys_comments_and_the_template_s_address_stay_in_the_answers(
    template: Template, tmp_path: Path, program: Program
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"}, "line: {type: str, default: a}\n")
    child = make_child(template, tmp_path / "child")
    own = "# why we follow it\n" + child.read(".copier-answers.yml") + "team: ours\n"
    child.edit({".copier-answers.yml": own})
    template.release("v2.0.0", {"a.txt": "2\n"}, "line: {type: str, default: b}\n")
    assert program(child) == 0
    assert child.read(".copier-answers.yml") == own.replace("v1.0.0", "v2.0.0")


@pytest.mark.slow
def test_an_answer_that_the_new_release_replaces_is_named(template: Template, tmp_path: Path, program: Program) -> None:
    asked = "tools: {{type: str, multiselect: true, choices: [{0}], default: [a]}}\n"
    template.release("v1.0.0", {"a.txt": "a\n"}, asked.format("a, b"))
    child = make_child(template, tmp_path / "child", "--data", "tools=[b]")
    template.release("v2.0.0", {"a.txt": "2\n"}, asked.format("a, c"))
    assert program(child) == 3, program.err
    assert "the answer tools: ['b'] is no longer possible and became ['a']" in program.out


@pytest.mark.slow
def test_releases_of_a_template_without_tags_are_the_commits_of_version(
    template: Template, tmp_path: Path, program: Program
) -> None:
    settings = "_exclude: [copier.yml, VERSION, .git]\n"
    for version in ("1.0.0", "2.0.0", "3.0.0.dev1"):
        template.release(f"v{version}", {"a.txt": f"{version}\n", "VERSION": f"{version}\n"}, settings)
        if version == "1.0.0":
            child = make_child(template, tmp_path / "child")
        template.git("tag", "--delete", f"v{version}")
    assert program(child) == 0, program.err
    assert child.read("a.txt") == "2.0.0\n"


def test_an_update_never_goes_back(template: Template, tmp_path: Path, program: Program) -> None:
    for version in ("v1.0.0", "v2.0.0"):
        template.release(version, {"a.txt": version})
    child = make_child(template, tmp_path / "child")
    assert program(child) == 0
    assert program.out == "nothing to do: this repository is at v2.0.0, the newest is v2.0.0\n"
    assert program(child, "--to", "v1.0.0") == 1
    assert "v1.0.0 is older than v2.0.0" in program.err
    older = make_child(template, tmp_path / "older", "--vcs-ref", "v1.0.0")
    template.git("tag", "withdrawn/v2.0.0", "v2.0.0")
    assert (program(older), program(older, "--to", "v2.0.0")) == (0, 1), "a withdrawn release is no release"
    assert program(child) == 0
    assert "is at v2.0.0 (withdrawn: the next release reverts it), the newest is v1.0.0" in program.out
    template.git("tag", "--delete", "withdrawn/v2.0.0")
    template.commit("After the release")
    between = make_child(template, tmp_path / "between", "--vcs-ref", "HEAD")
    assert program(between) == 0
    assert re.match(r"nothing to do: this repository is at v2.0.0-1-g\w+, the newest is v2", program.out)


@pytest.mark.slow
def test_the_updater_of_the_new_release_does_the_update(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"templates/wheels/README": ""})
    older, newer = tmp_path / "older.whl", template.path / "templates/wheels/gpu_repo_runtime-9.0.0-py3-none-any.whl"
    with zipfile.ZipFile(older, "w") as archive:
        for path in (RUNTIME / "gpu_repo_runtime").rglob("*.py"):
            archive.write(path, path.relative_to(RUNTIME))
        archive.writestr("gpu_repo_runtime-0.6.0.dist-info/METADATA", "Name: gpu-repo-runtime\nVersion: 0.6.0\n")
    with zipfile.ZipFile(newer, "w") as archive:
        for name in ("__init__.py", "update/__init__.py"):
            archive.writestr(f"gpu_repo_runtime/{name}", "")
        tell = "import sys; print('9.0.0', *sys.argv[1:]); sys.exit(4)"
        archive.writestr("gpu_repo_runtime/update/__main__.py", tell)
    template.commit("With its runtime")
    template.git("tag", "--force", "v2.0.0")
    command = [sys.executable, "-m", "gpu_repo_runtime.update", "--repository", str(child.path), "--dry-run"]
    environment = template.copier.environment() | {"PYTHONPATH": str(older)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, f"9.0.0 --repository {child.path} --dry-run\n"), done.stderr


def answers(change: Callable[[str], str]) -> Damage:
    """Return what commits other answers."""
    return lambda _, child: child.edit({".copier-answers.yml": change(child.read(".copier-answers.yml"))})


def release(text: str, settings: str = "", name: str = "a.txt") -> Damage:
    """Return what releases the template once more."""
    return lambda template, _: template.release("v2.1.0", {name: text}, settings)


UNSET = "line: {type: str, choices: [b], default: \"{{ UNSET if _copier_answers.line is defined else 'b' }}\"}\n"
ERRORS: dict[str, tuple[Damage, tuple[str, ...], str]] = {
    "uncommitted": (
        lambda _, child: write_files(child.path, {"untracked": "x\n"}), (),
        "uncommitted changes: commit or stash them first (?? untracked)",
    ),
    "conflict in the answers": (
        answers(lambda _: f"{MARKER}before\n_commit: v1.0.0\n=======\n"), (),
        "the last commit has no .copier-answers.yml with _commit",
    ),
    "no answers": (
        lambda _, child: child.edit({".copier-answers.yml": None}), (),
        "or this repository does not follow a template",
    ),
    "a relative address": (
        answers(lambda text: re.sub(r"(?m)^_src_path: .*$", "_src_path: template", text)), (), "does not exist"
    ),
    "a lost tag": (
        lambda template, _: template.git("tag", "--delete", "v1.0.0"), (), "the template has no version v1.0.0"
    ),
    "a broken template": (
        release("{{ nonsense | nonsense }}\n", name="a.txt.jinja"), (), "No filter named 'nonsense'"
    ),
    "a task": (release("b\n", "_tasks: ['true']\n"), (), "trust"),
    "a lost choice": (
        release("b\n", UNSET), (), 'Question "line" is required (give another answer with --answer question=answer)'
    ),
    "no such release": (lambda *_: None, ("--to", "v7"), "has no release v7: it has v1.0.0, v2.0.0"),
    "no such question": (
        lambda *_: None, ("--answer", "lnie=b"), "the template has no question lnie for this repository"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_is_one_line_and_changes_nothing(
    template: Template, tmp_path: Path, program: Program, case: str
) -> None:
    damage, options, message = ERRORS[case]
    settings = "line: {type: str, choices: [a, b], default: a}\n"
    template.release("v1.0.0", {"a.txt": "a\n"}, settings)
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "b\n"}, settings)
    damage(template, child)
    before = child.status()
    assert program(child, "--json", *options) == 1
    assert message in program.err
    assert re.fullmatch(r"update: [^\n]+\n", program.err), program.err
    assert json.loads(program.out)["code"] == 1
    assert child.status() == before
    assert child.read("a.txt") == "a\n"
