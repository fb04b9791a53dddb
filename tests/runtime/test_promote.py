"""A tag is given to the digest that was pushed, or not at all. Simulated: skopeo and the registry behind it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime.promote import promote
from gpu_repo_runtime.registry import RegistryError

OLD, NEW = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
HOST = "host.example.com"
PUSHED = f"{HOST}/ml/staging/it@{NEW}"
NAME = f"{HOST}/ml/it"
# Tags with their digest and labels are in registry.json; a fault is how skopeo fails from a call of an action on.
SKOPEO = """#!/usr/bin/env python3
import json, sys
from pathlib import Path
place = Path(__file__).with_name("registry.json")
state = json.loads(place.read_text())
action, *options = sys.argv[1:]
state["calls"].append(sys.argv[1:])
place.write_text(json.dumps(state))
words = [word for word in options if not word.startswith("--")]
tag = words[-1].rpartition(":")[2]
asked = "labels" if action == "inspect" and "Labels" in words[0] else action
if asked == "labels" and "@" in words[-1]:
    print(state["built"])
elif asked in state["faults"]:
    sys.exit(state["faults"][asked])
elif action == "inspect" and tag not in state["tags"]:
    sys.exit("level=fatal msg=reading manifest: manifest unknown")
elif action == "inspect":
    print(state["tags"][tag][0 if "Digest" in words[0] else 1])
elif action == "copy" and not state["ignores"]:
    state["tags"][tag] = [words[-2].rpartition("@")[2], ""]
    place.write_text(json.dumps(state))
"""


class Registry:
    """The stand-in of a registry, and scripts/promote's program before it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.capsys = folder / "registry.json", capsys
        self.write(
            tags={},
            faults={},
            ignores=False,
            calls=[],
            built=f"{'c' * 40} 2026-05-01T00:00:00Z",
        )

    def write(self, **state: Any) -> None:
        """Set parts of the state."""
        before = json.loads(self.place.read_text()) if self.place.exists() else {}
        self.place.write_text(json.dumps(before | state))

    def read(self, name: str) -> Any:
        """Return a part of the state."""
        return json.loads(self.place.read_text())[name]

    def promote(self, tag: str, back: bool = False, name: str = NAME, commit: str = "c" * 40) -> tuple[int, str]:
        """Promote; return the exit code, and the digest or what was said."""
        place, code = PUSHED.replace(HOST, name.partition("/")[0]), 0
        try:
            told = promote(place, f"{name}:{tag}", commit, "2026-05-01T00:00:00Z", back)
        except RegistryError as error:
            code, told = error.code, str(error)
        return code, told + self.capsys.readouterr().err


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Registry:
    """Return an empty registry; the folder is not a repository, so that no commit of another is known."""
    (tmp_path / "skopeo").write_text(SKOPEO)
    (tmp_path / "skopeo").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("REGISTRY_PAUSES", "0 0")
    monkeypatch.chdir(tmp_path)
    return Registry(tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["main", "v1.2.3"])
def test_a_new_tag_gets_the_pushed_digest_and_the_same_again_is_no_fault(registry: Registry, tag: str) -> None:
    for _ in range(2):
        assert registry.promote(tag) == (0, NEW)
    assert registry.read("tags")[tag][0] == NEW
    copy = next(call for call in registry.read("calls") if call[0] == "copy")
    assert {"--all", "--preserve-digests", f"docker://{PUSHED}"} <= set(copy)
    assert {"--src-tls-verify=true", "--dest-tls-verify=true"} <= set(copy)


@pytest.mark.parametrize("tag", ["v1.2.3", "1.2.3"])
def test_a_version_never_moves(registry: Registry, tag: str) -> None:
    registry.write(tags={tag: [OLD, ""]})
    code, said = registry.promote(tag, back=True)
    assert (code, f"is {OLD} already and a version never moves" in said) == (1, True), said
    assert registry.read("tags")[tag][0] == OLD


NEWER = "2026-06-01T00:00:00Z"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "back", "code"),
    [(NEWER, False, 1), (NEWER, True, 0), ("2026-04-01T00:00:00Z", False, 0), ("<no value>", False, 0)],
)
def test_a_tag_that_follows_goes_back_only_when_told(registry: Registry, when: str, back: bool, code: int) -> None:
    there = "d" * 40 if when[0] == "2" else "<no"
    registry.write(tags={"main": [OLD, f"{there} {when}"]})
    found, said = registry.promote("main", back)
    assert found == code, said
    assert registry.read("tags")["main"][0] == (OLD if code else NEW)
    assert not code or f"is of a newer commit already, {there}: not moved back to {'c' * 40}" in said


@pytest.mark.slow
def test_history_decides_before_the_time(registry: Registry) -> None:
    """The commit that a tag has is older than this one by history, and later by its clock."""
    git = "git -c user.name=a -c user.email=a@example.com"
    script = f"git init -q; {git} commit -qm 1 --allow-empty; {git} commit -qm 2 --allow-empty; git rev-list HEAD"
    done = subprocess.run(["sh", "-c", script], cwd=registry.place.parent, check=True, capture_output=True, text=True)
    newer, older = done.stdout.split()
    for this, there, when, code in ((newer, older, "2026-06", 0), (older, newer, "2026-04", 1)):
        registry.write(tags={"main": [OLD, f"{there} {when}-01T00:00:00Z"]}, built=f"{this} 2026-05-01T00:00:00Z")
        assert registry.promote("main", commit=this)[0] == code
        assert registry.read("tags")["main"][0] == (OLD if code else NEW)


@pytest.mark.parametrize(
    ("built", "known"),
    [
        ("d" * 40, "d" * 40),
        (f"{'c' * 40}-dirty", f"{'c' * 40}-dirty"),
        ("<no value>", "a commit that it does not name"),
        ("", "a commit that it does not name"),
    ],
)
def test_an_image_of_another_commit_is_not_released(registry: Registry, built: str, known: str) -> None:
    """A build that did nothing leaves what the engine had under that name, and scripts/push pushes it."""
    registry.write(built=f"{built} 2026-05-01T00:00:00Z".strip())
    code, said = registry.promote("v1.2.3")
    assert (code, f"was built from {known}, not from {'c' * 40}" in said) == (1, True), said
    assert registry.read("tags") == {}


SILENT = "level=fatal msg=connection refused"
DENIED = "level=fatal msg=reading config: denied"
# What the registry has and does, the tag that is asked for, what is said.
FAILING: dict[str, tuple[dict[str, Any], str, str]] = {
    "silent": ({"faults": {"inspect": SILENT}}, "main", "does not answer: connection refused"),
    "forgets": ({"ignores": True}, "main", f"does not show {NEW}"),
    "hides a version": (
        {"tags": {"v1.2.3": [OLD, ""]}, "faults": {"inspect": "msg=manifest unknown"}},
        "v1.2.3",
        "Let the account that releases read what is released",
    ),
    "does not describe its image": (
        {"tags": {"main": [OLD, ""]}, "faults": {"labels": DENIED}},
        "main",
        "does not answer: reading config: denied",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FAILING)
def test_a_registry_that_fails_is_said_with_its_own_words_and_nothing_is_set(registry: Registry, case: str) -> None:
    state, tag, words = FAILING[case]
    registry.write(**state)
    code, said = registry.promote(tag)
    assert (code, words in said) == (3, True), said
    assert registry.read("tags").get(tag, [OLD])[0] == OLD
