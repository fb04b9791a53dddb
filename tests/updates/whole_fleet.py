"""A whole fleet on both code hosts, which merge for real: clean children and one of each odd kind, through releases."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.updates.code_host import Repositories, Server
from tests.updates.copiers import ROOT, copier_at
from tests.updates.host_server import serve
from tests.updates.odd_children import ANSWERS, BY_SSH, KILLER, ODD, TEMPLATE, Place
from tests.updates.remotes import FIRST, SETTINGS
from tests.updates.stand_in_github import WAYS
from tests.updates.tiny import TEN_LINES, Template, make_child

HOSTS = ("github", "gitlab")
WAVES = ("canary", "early", "rest")
ONE, OLD, GOOD, BAD = "v1.0.0", "v1.5.0", "v2.0.0", "v3.0.0"
TOKEN = "FLEET_TOKEN"
PATIENCE = {"GIT_HTTP_LOW_SPEED_LIMIT": "1", "GIT_HTTP_LOW_SPEED_TIME": "5"}  # for the child whose host says nothing


def release_all(template: Template) -> None:
    """Release what the children have, one that was offered to a few, a good one and a bad one."""
    kept = {name: text for name, text in FIRST.items() if name != "dropped.txt"}
    template.release(ONE, FIRST, SETTINGS)
    template.release(OLD, FIRST | {"b.txt": "better\n"}, SETTINGS)
    template.release(GOOD, kept | {"a.txt": "fixed\n" + TEN_LINES, "new.txt": "n\n"}, SETTINGS)
    template.release(BAD, kept | {"a.txt": "broken\n" + TEN_LINES, "new.txt": "n\n"}, SETTINGS)


@contextmanager
def silent_host() -> Iterator[str]:
    """Give the address of a host that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@dataclass
class WholeFleet:
    """The fleet, its hosts and what has happened so far."""

    folder: Path
    template: Template
    servers: dict[str, Server]
    environment: dict[str, str]
    places: dict[str, Place] = field(default_factory=dict)
    waves: dict[str, str] = field(default_factory=dict)
    start: dict[str, str] = field(default_factory=dict)  # the tree that each child had at first
    steps: dict[str, int] = field(default_factory=dict)  # of the pipeline of each commit

    def command(self, *arguments: str, file: str = "fleet.yml", state: str = "state") -> list[str]:
        """Return the command line of the tool."""
        places = ["--fleet", str(self.folder / file), "--state", str(self.folder / state), "--jobs", "2"]
        return [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "fleet.py"), *places, *arguments]

    def run(self, *arguments: str, **where: str) -> subprocess.CompletedProcess[str]:
        """Run the tool; the exit code is the caller's to judge."""
        command = self.command(*arguments, **where)
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    def plan(self, to: str, **where: str) -> subprocess.CompletedProcess[str]:
        """Plan a version for every child."""
        return self.run("plan", "--template", TEMPLATE, "--to", to, "--child-limit", "60", **where)

    def forget(self) -> None:
        """Lose all that the tool remembers."""
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def requests(self, name: str) -> list[dict[str, Any]]:
        """Return the requests of a child."""
        place = self.places[name]
        return place.server.requests.get(place.project, [])

    def version(self, name: str) -> str:
        """Return the version that the default branch of a child follows; nothing where that cannot be read."""
        try:
            answers = self.places[name].git("show", f"HEAD:{ANSWERS}")
            return str(yaml.safe_load(answers)["_commit"])
        except (subprocess.CalledProcessError, yaml.YAMLError, TypeError):
            return ""

    def at(self, version: str) -> set[str]:
        """Return the children whose default branch follows a version."""
        return {name for name in self.places if self.version(name) == version}

    def with_branch(self, branch: str) -> set[str]:
        """Return the children that have a branch."""
        return {n for n, place in self.places.items() if place.git("for-each-ref", f"refs/heads/{branch}")}

    def clean(self) -> set[str]:
        """Return the children that are as most are."""
        return {name for name in self.places if name not in ODD}

    def end(self, name: str, version: str) -> str:
        """Return how the request of a version ended in a child: merged, draft, open, closed or none."""
        of_it = [one for one in self.requests(name) if branch_of(one) == f"template/{version}"]
        if not of_it:
            return "none"
        [request] = of_it
        if request.get("merged_at"):
            return "merged"
        is_draft = request.get("draft") or str(request["title"]).startswith("Draft: ")
        return "closed" if request["state"] == "closed" else "draft" if is_draft else "open"

    def pipelines(self) -> bool:
        """Let every pipeline go one step on, and the hosts merge what waits for it; return whether anything moved."""
        moved = False
        for name, place in self.places.items():
            for request in self.requests(name):
                moved |= request["state"].startswith("open") and self.step(name, place, request)
        return moved

    def step(self, name: str, place: Place, request: dict[str, Any]) -> bool:
        """Let the pipeline of one request go on."""
        server, branch = place.server, branch_of(request)
        if name == "closed":
            request["state"] = "closed"
            return True
        commit = server.head(place.project, branch)
        said = steps_of(name, branch)
        at = self.steps.get(commit, 0)
        if at < len(said):
            server.checks[commit], self.steps[commit] = [said[at]], at + 1
        if request.get("auto") and server.checks.get(commit) == ["success"] and place.project not in server.protected:
            server.merge(place.project, request, "merge")
            request.update(state="merged" if place.kind == "gitlab" else "closed", merged_at="2026-01-02T03:04:05Z")
            return True
        return at < len(said)

    def roll_out(self, wave: str, *options: str) -> list[subprocess.CompletedProcess[str]]:
        """Apply a wave until nothing moves any more, with a step of the pipelines after each; return the runs."""
        runs = []
        for _ in range(20):
            before = self.seen()
            runs.append(self.run("apply", "--wave", wave, *options))
            if not self.pipelines() and self.seen() == before:
                return runs
        raise AssertionError(f"wave {wave} does not come to an end: {runs[-1].stdout}{runs[-1].stderr}")

    def seen(self) -> list[Any]:
        """Return what a person sees of all requests."""
        return [[(one["state"], branch_of(one)) for one in self.requests(name)] for name in self.places]

    def merge_reverts(self, version: str) -> None:
        """Merge every request that takes a version back, as a person would."""
        for name, place in self.places.items():
            for request in self.requests(name):
                if branch_of(request) == f"template/revert-{version}":
                    place.server.merge(place.project, request, "merge")
                    request["state"] = "closed"


def branch_of(request: dict[str, Any]) -> str:
    """Return the branch of a request of either host."""
    return str(request.get("source_branch") or request["head"]["ref"])


def steps_of(name: str, branch: str) -> list[str]:
    """Return what the pipeline of a child says of a branch, step by step."""
    if name == "no-ci":
        return []
    bad = name == "red-ci" or branch == f"template/{BAD}"
    return ["pending", "failure" if bad else "success"]


def names_of(count: int) -> list[str]:
    """Return the names of all children: the odd ones stand at equal distances among the others."""
    step = count // len(ODD)
    odd = dict(zip(range(step - 1, count, step), ODD, strict=False))
    return [odd.get(number, f"c{number:03}") for number in range(count)]


def add_children(fleet: WholeFleet, count: int, swap: int) -> None:
    """Make the children and put them on the hosts, every other one on the other."""
    base = make_child(fleet.template, fleet.folder / "base", "--vcs-ref", ONE)
    answers = base.read(ANSWERS).replace(str(fleet.template.path), TEMPLATE)
    base.edit({ANSWERS: answers})
    for number, name in enumerate(names_of(count)):
        kind = HOSTS[(number // (count // len(ODD)) + swap) % 2] if name in ODD else HOSTS[number % 2]
        bare = fleet.folder / "remotes" / kind / "acme" / f"{name}.git"
        base.git("clone", "--quiet", "--bare", str(base.path), str(bare))
        place = fleet.places[name] = Place(name, bare, kind, fleet.servers[kind], fleet.environment)
        place.write({"own.txt": f"of {name}\n"})
        if kind == "github" and name not in ODD:
            way = list(WAYS)[number // 2 % len(WAYS)]
            place.server.settings[place.project] = {key: one == way for one, key in WAYS.items()}
        if name in ODD:
            ODD[name].make(place)
        fleet.waves[name] = WAVES[0] if number < count // 20 else WAVES[1] if number < count // 4 else WAVES[2]
        fleet.start[name] = "" if name == "empty" else place.git("rev-parse", "HEAD^{tree}")


def write_fleet_file(fleet: WholeFleet, silent: str) -> None:
    """Write fleet.yml, and offered.yml with the child that was offered an older version."""
    remotes = f"file://{fleet.folder}/remotes"
    rules = [
        {"match": f"{remotes}/{kind}/", "kind": kind, "api": server.address, "token_env": TOKEN, "template": TEMPLATE}
        for kind, server in fleet.servers.items()
    ]
    children = []
    for name, place in fleet.places.items():
        url = f"{silent}/{name}.git" if name == "hanging" else f"{remotes}/{place.kind}/acme/{name}.git"
        children.append({"name": name, "url": url, "wave": fleet.waves[name], "owner": "team", "automerge": True})
    (fleet.folder / "fleet.yml").write_text(yaml.safe_dump({"children": children, "hosts": rules}))
    offered = [child for child in children if child["name"] == "two-requests"]
    (fleet.folder / "offered.yml").write_text(yaml.safe_dump({"children": offered, "hosts": rules}))


def offer_the_old(fleet: WholeFleet) -> None:
    """Open the request of an older version in one child, as an earlier run of the tool did."""
    where = {"file": "offered.yml", "state": "earlier"}
    wave = fleet.waves["two-requests"]
    for done in (fleet.plan(OLD, **where), fleet.run("apply", "--wave", wave, "--threshold", "0", **where)):
        assert done.returncode == 0, done.stdout + done.stderr
    assert fleet.end("two-requests", OLD) == "open"


@contextmanager
def whole_fleet(folder: Path, count: int, swap: int = 0) -> Iterator[WholeFleet]:
    """Give a fleet of `count` children; `swap` 1 puts each odd one on the other host."""
    template = Template(folder / "template", copier_at(folder / "home"))
    release_all(template)
    hook = folder / "killer"
    hook.write_text(KILLER)
    hook.chmod(0o755)
    with (folder / "home" / "gitconfig").open("a") as settings:
        settings.write(f'[url "{template.path}"]\n\tinsteadOf = {TEMPLATE}\n\tinsteadOf = {BY_SSH}\n')
        settings.write(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
    with ExitStack() as stack:
        servers = {kind: stack.enter_context(serve(kind)) for kind in HOSTS}
        environment = template.copier.environment() | PATIENCE | {TOKEN: "secret"}
        for kind, server in servers.items():
            server.repositories = Repositories(folder / "remotes" / kind, environment)
        fleet = WholeFleet(folder, template, servers, environment)
        add_children(fleet, count, swap)
        write_fleet_file(fleet, stack.enter_context(silent_host()))
        offer_the_old(fleet)
        yield fleet
