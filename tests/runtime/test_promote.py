"""A tag is given to the digest that was pushed, or not at all. Simulated: skopeo and the registry behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime.registry import promote
from gpu_repo_runtime.script_error import ScriptError

from tests.sampling import sampled
from tests.shared import program

OLD, NEW = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
PUSHED = f"host.example.com/ml/staging/it@{NEW}"
NAME = "host.example.com/ml/it"
# What images have (digest, commit and time of the commit) is in registry.json; a fault is how skopeo fails.
SKOPEO = """#!/usr/bin/env python3
import json, sys
from pathlib import Path
place = Path(__file__).with_name("registry.json")
state = json.loads(place.read_text())
action, *words = [word for word in sys.argv[1:] if not word.startswith("--")]
state["calls"].append(sys.argv[1:])
name = words[-1].removeprefix("docker://")
if action in state["faults"]:
    sys.exit(state["faults"][action])
elif action == "inspect" and name not in state["images"]:
    sys.exit("level=fatal msg=reading manifest: manifest unknown")
elif action == "inspect":
    print("|".join(state["images"][name]))
elif not state["ignores"]:
    state["images"][name] = state["images"][words[-2].removeprefix("docker://")]
place.write_text(json.dumps(state))
"""
COMMIT, OTHER = "c" * 40, "d" * 40
OLDER, NOW, NEWER = "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"


def has(*labels: str, digest: str = OLD, **other: Any) -> dict[str, Any]:
    """Return what a registry has under the tag, and how it behaves. labels: the commit and its time."""
    usual = {"back": False, "built": COMMIT, "faults": {}, "ignores": False}
    return usual | other | {"there": [digest, *labels] if labels else None}


VERSION = f"is {OLD} already and a version never moves"
# The tag, what the registry has and does, exit code, what is said.
CASES: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "new": ("main", has(), 0, ""),
    "new version": ("v1.2.3", has(), 0, ""),
    "again": ("v1.2.3", has(COMMIT, NOW, digest=NEW), 0, ""),
    "version moves": ("v1.2.3", has(OTHER, OLDER, back=True), 1, VERSION),
    "version without v": ("1.2.3", has(OTHER, OLDER, back=True), 1, VERSION),
    "of a newer commit": ("main", has(OTHER, NEWER), 1, f"newer commit already, {OTHER}: not moved back"),
    "back on purpose": ("main", has(OTHER, NEWER, back=True), 0, ""),
    "of an older commit": ("main", has(OTHER, OLDER), 0, ""),
    "of an unknown commit": ("main", has("", ""), 0, ""),
    # A build that did nothing leaves what the engine had under that name, and scripts/push pushes it.
    "another commit": ("v1.2.3", has(built=OTHER), 1, f"was built from {OTHER}, not from {COMMIT}"),
    "dirty": ("v1.2.3", has(built=f"{COMMIT}-dirty"), 1, f"was built from {COMMIT}-dirty"),
    "no label": ("v1.2.3", has(built=""), 1, f"was built from an unknown commit, not from {COMMIT}"),
    "silent": ("main", has(faults={"inspect": "connection refused"}), 3, "does not answer: connection refused"),
    "forgets": ("main", has(ignores=True), 3, f"is not there, expected {NEW}"),
    "rejects": ("v1.2.3", has(faults={"copy": "denied"}), 3, f"is not there, expected {NEW}: denied"),
}


@pytest.mark.parametrize("case", sampled([*CASES], ["version moves", "another commit"]))
def test_a_tag_gets_the_pushed_digest_or_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    tag, given, code, words = CASES[case]
    program(tmp_path / "skopeo", SKOPEO)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    name, file = f"{NAME}:{tag}", tmp_path / "registry.json"
    there = given["there"]
    images = {PUSHED: [NEW, given["built"], NOW]} | ({name: there} if there else {})
    file.write_text(json.dumps({"images": images, "calls": [], **given}))
    found, said = 0, ""
    try:
        promote(PUSHED, name, COMMIT, NOW, given["back"])
    except ScriptError as error:
        found, said = error.code, str(error)
    assert (found, words in said) == (code, True), said
    state = json.loads(file.read_text())
    assert state["images"].get(name) == (there if code else [NEW, COMMIT, NOW])
    for call in state["calls"]:
        if call[0] == "copy":
            assert {"--all", "--preserve-digests", f"docker://{PUSHED}", "--src-tls-verify=true"} <= set(call)
