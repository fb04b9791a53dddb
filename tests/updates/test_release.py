"""A release is one command that changes VERSION alone, and that refuses what is not ready."""

import subprocess
import sys
from pathlib import Path

import pytest
from releases import current

from tests.sampling import every, sampled
from tests.updates.copiers import ROOT, Copier, run_program
from tests.updates.release_cases import ANSWERS_FILE, GOOD
from tests.updates.tiny import Repository, write_files

LOG = "# Changes\n\n## 1.1.0\n\nA fix.\n\n## 1.0.0\n\nfirst\n"


@pytest.fixture
def family(tmp_path: Path, copier: Copier) -> Repository:
    """Return a small family with the release 1.0.0, a change since, and an origin."""
    made = Repository(tmp_path / "family", copier)
    write_files(made.path, GOOD | {ANSWERS_FILE: "{{ _copier_answers | to_nice_yaml }}"})
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit("Release 1.0.0")
    write_files(made.path, {"t/scripts/build": "better\n", "CHANGELOG.md": LOG})
    made.commit("A fix")
    made.git("clone", "--quiet", "--bare", str(made.path), str(tmp_path / "origin.git"))
    made.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    return made


def run(family: Repository, version: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Release a version."""
    environment = family.copier.environment() | {"PYTHON": sys.executable} | more
    command = [str(ROOT / "hooks/release"), version]
    return subprocess.run(command, cwd=family.path, env=environment, capture_output=True, text=True, check=False)


def tags(family: Repository) -> subprocess.CompletedProcess[str]:
    """Set the tags that are missing."""
    return run_program("releases", [], family.path, family.copier.environment())


def test_a_release_changes_version_alone_and_is_tagged_and_pushed(family: Repository) -> None:
    done = run(family, "1.1.0", PUSH="1")
    assert done.returncode == 0, done.stderr
    assert "warning: no smoke test on a GPU is recorded for one: run" in done.stderr
    assert family.git("show", "--format=%s", "--name-only", "HEAD").split("\n\n") == ["Release 1.1.0", "VERSION\n"]
    assert family.git("rev-parse", "v1.1.0^{commit}") == family.git("rev-parse", "HEAD")
    there = family.git("ls-remote", "origin", "main", "v1.1.0^{}").split()
    assert there[0] == there[2] == family.git("rev-parse", "HEAD").strip()
    assert tags(family).stdout == "tagged v1.0.0\n"
    assert tags(family).stdout == "every release has its tag\n"


@pytest.mark.slow
def test_a_pre_release_needs_no_section_of_its_own(family: Repository) -> None:
    done = run(family, "1.1.0rc1")
    assert done.returncode == 0, done.stderr
    assert "to push it: git push --atomic origin HEAD v1.1.0rc1" in done.stdout
    assert run(family, "1.1.0").returncode == 0


@pytest.mark.slow
def test_a_release_that_cannot_be_tagged_is_taken_back(family: Repository) -> None:
    family.git("config", "tag.gpgSign", "true")
    family.git("config", "gpg.program", "false")
    before = family.git("rev-parse", "HEAD")
    assert run(family, "1.1.0").returncode == 128
    assert (family.git("rev-parse", "HEAD"), family.git("status", "--porcelain")) == (before, "")


@pytest.mark.parametrize(
    ("version", "files", "reason"),
    sampled(
        [
            ("1.1", {}, "'1.1' is not a release: expected VERSION=X.Y.Z"),
            ("1.0.0", {}, "1.0.0 is released already"),
            ("0.9.0", {}, "rejected: VERSION is 0.9.0, which does not follow 1.0.0"),
            ("2.0.0", {}, "rejected: CHANGELOG.md has no section '## 2.0.0'"),
            ("1.1.0", {"t/scripts/build": "half\n"}, "not committed:  M t/scripts/build"),
            (
                "1.1.0",
                {"copier.yml": GOOD["copier.yml"] + "_tasks: ['true']\n"},
                "rejected: no child can start with the defaults",
            ),
        ],
        every(4),
    ),
)
def test_what_is_not_ready_is_refused_and_nothing_is_changed(
    family: Repository, version: str, files: dict[str, str], reason: str
) -> None:
    if files:
        write_files(family.path, files)
        if "not committed" not in reason:
            family.commit("A change that hurts")
    before = [family.git(*words.split()) for words in ("rev-parse HEAD", "status --porcelain", "tag")]
    done = run(family, version)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "release-check: render" not in done.stdout, "it took minutes to say so"
    assert [family.git(*words.split()) for words in ("rev-parse HEAD", "status --porcelain", "tag")] == before


@pytest.mark.slow
@pytest.mark.needs("the history of git")
def test_the_demo_shows_a_merge_an_opted_out_file_and_a_solved_conflict(tmp_path: Path, copier: Copier) -> None:
    environment = copier.environment() | {"DEMO_FOLDER": str(tmp_path / "demo")}
    command = [sys.executable, str(ROOT / "hooks" / "demo_update.py"), "--type", "library"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for text in ("merged     .dockerignore", "opted out  renovate.json", "conflict   .editorconfig", "<<<<<<< HEAD"):
        assert text in done.stdout
    child = tmp_path / "demo" / "demo"
    assert (child / ".editorconfig").read_text().startswith("# our line\n# a fix of the template\n")
    assert (child / ".dockerignore").read_text().endswith("# our line\n")


def test_the_changelog_of_this_family_has_its_version() -> None:
    version = current(ROOT).partition(".dev")[0]
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
