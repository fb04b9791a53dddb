"""The fleet tool finds the children that GitHub or GitLab lists."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from fleetkit.children import FleetError
from fleetkit.fleet_file import load
from fleetkit.listing import with_listed

from tests.updates.host_server import serve

TEMPLATE = "https://git.example.com/acme/family.git"
ANSWERS = {
    "acme/one": f"_src_path: {TEMPLATE}\n",
    "acme/two": "_src_path: https://git.example.com/acme/family\n",
    "acme/other": "_src_path: https://git.example.com/else/template.git\n",
    "acme/broken": f"<<<<<<< HEAD\n_src_path: {TEMPLATE}\n",
    "acme/none": None,
    "acme/old": f"_src_path: {TEMPLATE}\n",
}


def fleet_file(
    folder: Path, kind: str, address: str, children: list[dict[str, str]] | None = None, **more: str
) -> Path:
    """Write a fleet.yml whose host lists the owner acme."""
    rule = {"match": "https://git.example.com/", "kind": kind, "api": address, "token_env": "FLEET_TOKEN"}
    rule |= {"owner": "acme", "template": TEMPLATE} | more
    (folder / "fleet.yml").write_text(yaml.safe_dump({"children": children or [], "hosts": [rule]}))
    return folder / "fleet.yml"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_repositories_that_follow_the_template_are_children(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("FLEET_TOKEN", "secret")
    own = [{"url": "https://git.example.com/acme/two", "wave": "canary", "owner": "team"}]
    with serve(kind) as server:
        server.answers, server.archived, server.page = dict(ANSWERS), {"acme/old"}, 2
        fleet = with_listed(load(fleet_file(tmp_path, kind, server.address, own)))
    found = {child.name: (child.url, child.wave, child.owner) for child in fleet.children}
    assert found == {
        "two": ("https://git.example.com/acme/two", "canary", "team"),
        "one": ("https://git.example.com/acme/one.git", "rest", ""),
        "broken": ("https://git.example.com/acme/broken.git", "rest", ""),
    }, kind


def test_projects_of_subgroups_have_names_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEET_TOKEN", "secret")
    with serve("gitlab") as server:
        server.answers = {f"acme/{place}/one": ANSWERS["acme/one"] for place in ("red", "blue")}
        fleet = with_listed(load(fleet_file(tmp_path, "gitlab", server.address)))
    assert {child.name for child in fleet.children} == {"red-one", "blue-one"}


@pytest.mark.parametrize("kind", ["github", "gitlab"])
@pytest.mark.parametrize(
    ("more", "token", "expected"),
    [
        ({}, "wrong", "of acme cannot be listed: 401"),
        ({"owner": "nobody"}, "secret", "of nobody cannot be listed: 404"),
        ({"template": ""}, "secret", "to list acme, the host needs kind github or gitlab, and template"),
    ],
    ids=["wrong token", "unknown owner", "no template"],
)
def test_what_cannot_be_listed_is_one_line(kind, more, token, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("FLEET_TOKEN", token)
    with serve(kind) as server, pytest.raises(FleetError) as error:
        with_listed(load(fleet_file(tmp_path, kind, server.address, **more)))
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
    assert token not in str(error.value), "the token stays out of messages"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_one_odd_repository_stops_no_other(kind, tmp_path, monkeypatch, capsys):
    """One that is blocked, one whose answers are a folder or too large, names that no file takes or that are taken."""
    monkeypatch.setenv("FLEET_TOKEN", "secret")
    follows = f"_src_path: {TEMPLATE}\n"
    names = ["acme/one", "acme/blocked", "acme/.github", "acme/a/b", "acme/a-b", "acme/" + "long/" * 60 + "x"]
    names = names if kind == "gitlab" else [name for name in names if name.count("/") == 1]
    own = [{"url": "git@git.example.com:Acme/Two.git", "name": "mine"}, {"url": "https://else.example.com/one.git"}]
    with serve(kind) as server:
        server.answers = dict.fromkeys([*names, "acme/two"], follows)
        server.odd_files["acme/blocked"] = (403, {}, '{"message": "Repository access blocked"}')
        if kind == "github":
            server.answers |= dict.fromkeys(("acme/folder", "acme/huge"), follows)
            server.odd_files["acme/folder"] = (200, {}, "[]")
            server.odd_files["acme/huge"] = (200, {}, '{"type": "file", "encoding": "none", "content": ""}')
        file = fleet_file(tmp_path, kind, server.address, own)
        text = yaml.safe_load(file.read_text())
        text["hosts"].append({"match": "git@git.example.com:", "kind": kind, "token_env": "FLEET_TOKEN"})
        file.write_text(yaml.safe_dump(text))
        fleet = with_listed(load(file))
    urls = {child.url: child.name for child in fleet.children}
    listed = {f"https://git.example.com/{name}.git" for name in names if name != "acme/blocked"}
    assert set(urls) == listed | {one["url"] for one in own}, "one by ssh is the one that the host lists"
    assert urls["https://git.example.com/acme/.github.git"] == "github"
    assert urls["https://git.example.com/acme/one.git"].startswith("one-"), "another child has this name already"
    assert len(set(urls.values())) == len(urls)
    assert max(map(len, urls.values())) < 100
    told = capsys.readouterr().err.splitlines()
    left = ["acme/blocked"] + (["acme/folder", "acme/huge"] if kind == "github" else [])
    assert sorted(line.split()[1] for line in told if "is left out" in line) == left


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_host_that_fails_midway_lists_no_smaller_fleet(kind, tmp_path, monkeypatch):
    """With half of its children a fleet looks healthier than it is."""
    monkeypatch.setenv("FLEET_TOKEN", "secret")
    with serve(kind) as server:
        server.answers = dict.fromkeys(("acme/one", "acme/two"), f"_src_path: {TEMPLATE}\n")
        server.odd_files["acme/two"] = (400, {}, '{"message": "no"}')
        with pytest.raises(FleetError, match="cannot be listed"):
            with_listed(load(fleet_file(tmp_path, kind, server.address)))
        server.faults.clear()
