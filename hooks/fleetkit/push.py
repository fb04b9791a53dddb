"""Bring a release to one child: update, branch, request. These two are the state: a second run changes nothing."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gpu_repo_runtime.update.git import Git, UpdateError
from gpu_repo_runtime.update.merge import make_update
from gpu_repo_runtime.update.releases import Releases, number
from gpu_repo_runtime.update.render import read_answers

from fleetkit.access import BOT, shallow_clone
from fleetkit.fleet_file import Child
from fleetkit.hosts import BRANCHES, Host, Request, connect
from fleetkit.request_text import message, parts
from fleetkit.rows import Row


def same_place(one: str, other: str) -> bool:
    """Tell whether two addresses are one repository, by https, by ssh or as a folder."""

    def plain(address: str) -> str:
        found = re.sub(r"^(?:\w+://)?(?:[^/@]*@)?", "", address.strip()).removesuffix("/").removesuffix(".git")
        found = re.sub(r"^(gh|gl):", lambda short: {"gh": "github.com/", "gl": "gitlab.com/"}[short[1]], found)
        return found.replace(":", "/").replace("//", "/").lower()

    return plain(one) == plain(other)


def followed(answers: Mapping[str, object]) -> str:
    """Return the release that a child follows. Raises UpdateError for a commit, which says not how old it is."""
    if (version := str(answers["_commit"])).isalnum():
        raise UpdateError(f"it follows the commit {version}, not a release: run scripts/update in it and merge that")
    return version


def tip(git: Git, branch: str) -> str:
    """Fetch the commit of a branch of the child and return it, "" where there is no such branch."""
    here = f"refs/fleet/{branch}"
    done = git.run("fetch", "--quiet", "--depth=1", "--no-tags", "origin", f"+refs/heads/{branch}:{here}")
    return git.text("rev-parse", here) if done.returncode == 0 else ""


def is_own(git: Git, commit: str) -> bool:
    """Tell whether a branch is as this tool pushed it; a person who adds, amends or merges leaves another name."""
    return git.text("show", "--no-patch", "--format=%ce", commit) == BOT


def push_branch(git: Git, commit: str, branch: str, before: str) -> None:
    """Push a branch, or delete it where `commit` is empty, unless it is no longer what it was."""
    lease = f"--force-with-lease=refs/heads/{branch}:{before}"
    git.text("push", "--quiet", "--no-verify", lease, "origin", f"{commit}:refs/heads/{branch}")


def supersede(git: Git, host: Host, newer: Request) -> list[str]:
    """Close the requests of older releases, but those that a person worked on; return what is left open."""
    left = []
    for older in host.requests():
        if number(older.version) >= number(newer.version):
            continue
        before = tip(git, older.branch)
        if before and not is_own(git, before):
            left.append(f"{older.url} stays open: a person works on it")
            continue
        host.close(older, f"Superseded by {newer.url}, which brings {newer.version} with all of {older.version}.")
        if before:
            push_branch(git, "", older.branch, before)
    return left


def stage_conflicts(git: Git) -> None:
    """Stage each conflict as the work tree has it: with markers, or as the child had it. Only a draft gets this far."""
    for path in git.paths("diff", "--name-only", "--diff-filter=U", "-z"):
        there = (git.folder / path).exists() or (git.folder / path).is_symlink()
        git.text(*(("add", "--force") if there else ("rm", "--quiet", "--cached")), "--", path)


def commit_index(git: Git, text: str) -> str:
    """Commit the index. The date is that of the child's last commit, so that the same update is the same commit."""
    date = git.text("show", "--no-patch", "--format=%cI", "HEAD")
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    return git.text("commit-tree", git.text("write-tree"), "-p", "HEAD", "-F", "-", stdin=text, env=dates)


def push_child(child: Child, releases: Releases, template: str, to: str, is_trial: bool) -> Row:
    """Bring release `to` to one child and return its line; a trial pushes and opens nothing. Raises UpdateError."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as place:
        git = shallow_clone(child, Path(place, "child"))
        answers = read_answers(git)
        if not same_place(str(answers.get("_src_path", "")), template):
            return Row(child.name, "left out", str(answers["_commit"]), reason="it follows another template")
        old, branch = followed(answers), BRANCHES + to
        if number(old) >= number(to):
            return Row(child.name, "up to date", old)
        host = connect(child)
        known, before = host.requests(branch), tip(git, branch)
        current = next((one for one in known if one.state == "open"), None)
        if known and current is None:
            was = "merged before and reverted since" if known[0].state == "merged" else "closed by a person"
            return Row(child.name, "closed", old, known[0].url, f"{was}: left as it is")
        if before and not is_own(git, before):
            url = current.url if current else f"branch {branch}"
            return Row(child.name, "edited", old, url, "a person works on the branch: left as it is")
        what = "unchanged"
        if not before or (current and host.conflicts(current)):
            git.text("reset", "--quiet", "--hard")
            update = make_update(git, releases, old, to)
            stage_conflicts(git)
            made = commit_index(git, message(update))
            if made != before:
                if not is_trial:
                    push_branch(git, made, branch, before)
                what, before = ("renewed" if before else "pushed"), made
        title, text, draft = parts(git.text("show", "--no-patch", "--format=%B", before))
        hands = [line.removeprefix("- [ ] ") for line in text.splitlines() if line.startswith("- [ ] ")]
        if is_trial:
            return Row(child.name, "draft" if draft else what, old, current.url if current else "", "; ".join(hands))
        if current is None:
            current = host.open(branch, git.text("symbolic-ref", "--short", "HEAD"), title, text, draft)
        elif what == "renewed":
            host.refresh(current, title, text, draft)
        left = supersede(git, host, current)
        return Row(child.name, "draft" if draft else what, old, current.url, "; ".join(hands + left))


def close_child(child: Child, to: str) -> Row:
    """Close the request of a release and delete its branch, unless a person worked on it. Raises UpdateError."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as place:
        git, host, branch = shallow_clone(child, Path(place, "child")), connect(child), BRANCHES + to
        version, before = str(read_answers(git)["_commit"]), tip(git, branch)
        current = next((one for one in host.requests(branch) if one.state == "open"), None)
        if current:
            host.close(current, f"{to} is withdrawn; a later release brings its good parts.")
        if before and not is_own(git, before):
            return Row(child.name, "closed", version, f"branch {branch}", "the branch stays: a person worked on it")
        if before:
            push_branch(git, "", branch, before)
        url = current.url if current else ""
        if number(version) == number(to):
            return Row(child.name, "merged", version, url, "merged there: release a revert, then `make fleet-push`")
        return Row(child.name, "closed" if current else "nothing open", version, url)
