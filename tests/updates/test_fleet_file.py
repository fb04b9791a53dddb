"""What fleet.yml may hold: a mistake in it is one line, and nothing of it is taken for something else in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from fleetkit.children import FleetError
from fleetkit.fleet_file import load

URL = "https://git.example.com/acme/one.git"
HOST = {"match": "https://git.example.com/", "kind": "github"}
LEVELS = "".join(f"x-{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("[1, 2]", "it holds a list"),
        ("words", "it holds a str"),
        ("children: {url: x}\nhost: []", "host is unknown"),
        (f"children: [{{url: '{URL}'}}]\nchildren: []", "children appears twice"),
        (f"children: [{{url: '{URL}', paused: true, paused: false}}]", "paused appears twice"),
        (f"children: [{{url: '{URL}', automerge: 'false'}}]", "automerge is true or false, not 'false'"),
        (f"children: [{{url: '{URL}', paused: 'no'}}]", "paused is true or false, not 'no'"),
        (f"children: [{{url: '{URL}', owner: [ada]}}]", "owner is a text"),
        (f"children: [{{url: '{URL}', wave: later}}]", "it needs one of canary, early, rest"),
        (f"children: [{{url: '{URL}', auto-merge: true}}]", "needs a url and knows"),
        (f"children: ['{URL}']", "needs a url and knows"),
        (f"children: [{{url: '{URL}', name: ../up}}]", "is not a name"),
        (f"children: [{{url: '{URL}', name: {'x' * 300}}}]", "is longer than a name may be"),
        (f"children: []\nhosts: [{{match: '{URL}', kind: gitea}}]", "there is no host 'gitea'"),
        (f"children: []\nhosts: [{{match: '{URL}', kind: github, tokenenv: X}}]", "needs match and kind, and knows"),
        (f"children: []\nhosts: [{{match: '{URL}', kind: github, api: git.example.com}}]", "api is an address"),
        ("children: []\nhosts: github", "needs match and kind"),
        ("children: &a [*a]", "needs a url and knows"),
        (f"x-0: &l0 [x]\n{LEVELS}children: *l8", "unfolds to more than"),
        ("children: " + "[" * 3000, "is not a fleet file"),
        ("children: \x1b[2J", "is not a fleet file"),
    ],
)
def test_a_mistake_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text(text)
    with pytest.raises(FleetError) as error:
        load(tmp_path / "fleet.yml")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_bytes(b"children: \xff\xfe")
    with pytest.raises(FleetError, match="is not a fleet file"):
        load(tmp_path / "fleet.yml")


@pytest.mark.parametrize(
    "other",
    [
        "git@git.example.com:acme/one.git",
        "ssh://git@git.example.com:22/acme/one",
        "https://bot:token@git.example.com/Acme/One/",
        f"{URL}/",
    ],
)
def test_one_repository_is_one_child(other: str, tmp_path: Path) -> None:
    """Two would push one branch, and count twice in every wave."""
    children = [{"url": URL}, {"url": other, "name": "another"}]
    hosts = [HOST, {"match": "git@git.example.com:", "kind": "github"}, {"match": "ssh://", "kind": "github"}]
    (tmp_path / "fleet.yml").write_text(yaml.safe_dump({"children": children, "hosts": hosts}))
    with pytest.raises(FleetError, match="the repository of one and another appears twice") as error:
        load(tmp_path / "fleet.yml")
    assert "token" not in str(error.value)


def test_what_is_right_is_taken_as_it_stands(tmp_path: Path) -> None:
    text = f"x-all: &all {{wave: canary, automerge: true}}\nchildren: [{{url: '{URL}', <<: *all, owner: 7}}]\n"
    (tmp_path / "fleet.yml").write_text(text)
    [child] = load(tmp_path / "fleet.yml").children
    assert (child.name, child.wave, child.automerge, child.paused, child.owner) == ("one", "canary", True, False, "7")


def test_plain_git_tells_letters_of_another_case_apart(tmp_path: Path) -> None:
    children = [{"url": "https://git.example.com/a/One.git"}, {"url": "https://git.example.com/a/one.git"}]
    (tmp_path / "fleet.yml").write_text(yaml.safe_dump({"children": children}))
    assert [child.name for child in load(tmp_path / "fleet.yml").children] == ["One", "one"]


def test_a_folder_with_odd_names_is_a_fleet(tmp_path: Path) -> None:
    for name in ("one.git", "mine and yours.git", ".hidden.git"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "HEAD").touch()
    assert {child.name for child in load(tmp_path).children} == {"one", "mine-and-yours", "hidden"}
