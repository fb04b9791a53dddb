"""A tag is given to the digest that was pushed, or not at all. Simulated: skopeo and the registry behind it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime.promote import promote
from gpu_repo_runtime.registry import RegistryError

from tests.sampling import sampled
from tests.shared import program

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


COMMIT, OTHER = "c" * 40, "d" * 40
OLDER, NOW, NEWER = "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"


class Registry:
    """The stand-in of a registry, and scripts/promote's program before it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "registry.json"

    def promote(self, tag: str, commit: str = COMMIT, back: bool = False, **state: Any) -> tuple[int, str, str]:
        """Promote in a registry of this state; return the exit code, what was said, and the tag's digest or ""."""
        state = {"tags": {}, "faults": {}, "ignores": False, "calls": [], "built": f"{commit} {NOW}"} | state
        self.file.write_text(json.dumps(state))
        try:
            code, said = 0, promote(PUSHED, f"{NAME}:{tag}", commit, NOW, back)
        except RegistryError as error:
            code, said = error.code, str(error)
        return code, said, json.loads(self.file.read_text())["tags"].get(tag, [""])[0]

    def calls(self, action: str) -> list[list[str]]:
        """Return the calls of an action of skopeo."""
        return [call for call in json.loads(self.file.read_text())["calls"] if call[0] == action]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return a registry; the folder is not a repository, so that no commit of another is known."""
    program(tmp_path / "skopeo", SKOPEO)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("REGISTRY_PAUSES", "0 0")
    monkeypatch.chdir(tmp_path)
    return Registry(tmp_path)


def has(tag: str, labels: str = "", digest: str = OLD) -> dict[str, Any]:
    """Return the state of a registry that has a tag."""
    return {"tags": {tag: [digest, labels]}}


VERSION = f"is {OLD} already and a version never moves"
UNNAMED = f"was built from a commit that it does not name, not from {COMMIT}"
# The tag, what the registry has and does, exit code, what is said.
CASES: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "new": ("main", {}, 0, NEW),
    "new version": ("v1.2.3", {}, 0, NEW),
    "again": ("v1.2.3", has("v1.2.3", digest=NEW), 0, NEW),
    "version moves": ("v1.2.3", has("v1.2.3") | {"back": True}, 1, VERSION),
    "version without v": ("1.2.3", has("1.2.3") | {"back": True}, 1, VERSION),
    "of a newer commit": ("main", has("main", f"{OTHER} {NEWER}"), 1, f"newer commit already, {OTHER}: not moved back"),
    "back on purpose": ("main", has("main", f"{OTHER} {NEWER}") | {"back": True}, 0, NEW),
    "of an older commit": ("main", has("main", f"{OTHER} {OLDER}"), 0, NEW),
    "of an unknown commit": ("main", has("main", "<no <no value>"), 0, NEW),
    # A build that did nothing leaves what the engine had under that name, and scripts/push pushes it.
    "another commit": ("v1.2.3", {"built": f"{OTHER} {NOW}"}, 1, f"was built from {OTHER}, not from {COMMIT}"),
    "dirty": ("v1.2.3", {"built": f"{COMMIT}-dirty {NOW}"}, 1, f"was built from {COMMIT}-dirty"),
    "no label": ("v1.2.3", {"built": f"<no value> {NOW}"}, 1, UNNAMED),
    "silent": ("main", {"faults": {"inspect": "msg=connection refused"}}, 3, "does not answer: connection refused"),
    "forgets": ("main", {"ignores": True}, 3, f"does not show {NEW}"),
    "hides a version": (
        "v1.2.3",
        has("v1.2.3") | {"faults": {"inspect": "msg=manifest unknown"}},
        3,
        "Let the account that releases read what is released",
    ),
    "does not describe its image": (
        "main",
        has("main") | {"faults": {"labels": "msg=reading config: denied"}},
        3,
        "does not answer: reading config: denied",
    ),
}


@pytest.mark.parametrize("case", sampled([*CASES], ["version moves", "another commit"]))
def test_a_tag_gets_the_pushed_digest_or_stays_as_it_is(registry: Registry, case: str) -> None:
    tag, state, code, words = CASES[case]
    before = state.get("tags", {}).get(tag, [""])[0]
    found, said, after = registry.promote(tag, **state)
    assert (found, words in said, after) == (code, True, before if code else NEW), said
    for copy in registry.calls("copy"):
        assert {"--all", "--preserve-digests", f"docker://{PUSHED}", "--src-tls-verify=true"} <= set(copy)


@pytest.mark.slow
def test_history_decides_before_the_time(registry: Registry, tmp_path: Path) -> None:
    """The commit that a tag has is older than this one by history, and later by its clock."""
    git = "git -c user.name=a -c user.email=a@example.com"
    script = f"git init -q; {git} commit -qm 1 --allow-empty; {git} commit -qm 2 --allow-empty; git rev-list HEAD"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    newer, older = done.stdout.split()
    for this, there, when, code in ((newer, older, NEWER, 0), (older, newer, OLDER, 1)):
        assert registry.promote("main", this, **has("main", f"{there} {when}"))[::2] == (code, OLD if code else NEW)
