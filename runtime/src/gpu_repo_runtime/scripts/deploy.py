"""Deploy the image that was pushed and checked, by its digest: kubectl reads and writes the objects, as JSON.

An older build that is approved late must not replace a newer one: each object says which commit it was deployed from.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..promote import is_newer
from .facts import PROOF, PUSHED, Project, ScriptError, commit_time, printed, pushed

NOTE = "scripts.deploy/commit"
OBJECTS = Path("build/deploy.json")


@dataclass(frozen=True)
class Deployment:
    """What is deployed: an overlay of a project with the released image, from a commit of a time."""

    project: Project
    overlay: str
    image: str
    commit: str

    def objects(self) -> list[dict[str, Any]]:
        """Return the objects of the overlay with the image by its digest, wherever they name it. Raises ScriptError."""
        folder = f"deploy/overlays/{self.overlay}"
        text = printed("kubectl", "kustomize", folder)
        note = f"{NOTE}={self.commit} {commit_time()}"
        told = printed(
            "kubectl", "annotate", "--local", "--overwrite", "--filename", "-", note, "--output", "json", given=text
        )
        found = [replaced(one, self.project.mention(), self.image) for one in documents(told)]
        if not any(mentions(one, self.image) for one in found):
            raise ScriptError(2, f"{folder} uses no image {self.project.repository}")
        return found

    def check_newer(self, objects: list[dict[str, Any]], back: bool) -> list[dict[str, Any]]:
        """Return what runs, if it was asked. Raises ScriptError where a newer commit runs that this may not replace."""
        this = self.commit.replace("-dirty", "")
        if back or os.environ.get("DEPLOY_BACK") == this:
            self.project.say(f"{this} may replace a newer commit, as you said")
            return []
        mine = [one for one in objects if mentions(one, self.image)]  # others may be shared
        try:
            told = printed(
                "kubectl", "get", "--filename", "-", "--ignore-not-found", "--output", "json", given=listed(mine)
            )
        except ScriptError as error:
            raise ScriptError(
                1, "not deployed: the cluster does not say which commit runs in it; the reason is above"
            ) from error
        for there, when in notes(told):
            if is_newer(there, when, this, commit_time()):
                ways = f"scripts/deploy {self.overlay} --allow-older, or DEPLOY_BACK={this} in CI"
                told = f"{there} of {when} runs already, and {this} is older"
                raise ScriptError(1, f"not deployed: {told}. To go back to it on purpose: {ways}")
        return list(documents(told))

    def keep_going(self, objects: list[dict[str, Any]], running: list[dict[str, Any]]) -> None:
        """Let half of the pods that run be replaced at a time, where as many or more wait for a GPU.

        A rollout keeps half of the pods that are wanted: if no more run, none ends, and the new ones get no GPU.
        """
        specs = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "Deployment"}
        for now in running:
            name, wanted, ready = now["metadata"]["name"], now.get("spec", {}).get("replicas", 0), available(now)
            update = specs.get(name, {}).get("strategy", {}).get("rollingUpdate")
            if update == {"maxSurge": 0, "maxUnavailable": "50%"} and 0 < ready <= wanted - wanted // 2 < wanted:
                update["maxUnavailable"] = wanted - ready // 2
                self.project.say(f"{ready} of {wanted} pods of {name} run: {ready - ready // 2} are replaced at a time")


def available(one: dict[str, Any]) -> int:
    """Return how many pods of a Deployment are ready."""
    return int(one.get("status", {}).get("availableReplicas", 0))


def documents(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a text in which kubectl printed one JSON after the other, or a list of them."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        one, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        yield from one["items"] if one.get("kind") == "List" else [one]


def listed(objects: list[dict[str, Any]]) -> str:
    """Return objects as a list that kubectl reads."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2)


def replaced(value: Any, mention: re.Pattern[str], image: str) -> Any:
    """Return a value with every mention of the repository, whatever its tag, replaced by the image."""
    if isinstance(value, dict):
        return {key: replaced(one, mention, image) for key, one in value.items()}
    if isinstance(value, list):
        return [replaced(one, mention, image) for one in value]
    return mention.sub(image, value) if isinstance(value, str) else value


def mentions(one: dict[str, Any], image: str) -> bool:
    """Tell whether an object names the image."""
    return image in json.dumps(one)


def notes(text: str) -> Iterator[tuple[str, str]]:
    """Yield commit and time of what runs, where an object says it."""
    for one in documents(text):
        note = one.get("metadata", {}).get("annotations", {}).get(NOTE, "")
        if found := re.match(r"([0-9a-f]{40,64})\S* ([0-9TZ:-]+)", note):
            yield found[1], found[2]


def deploy(project: Project, words: list[str]) -> int:
    """Deploy an overlay, or show what would change."""
    overlay, option = ("".join(one for one in words if one.startswith("-") == is_option) for is_option in (False, True))
    check_asked(overlay, option)
    with ExitStack() as files:
        take_kubeconfig(files)
        image, commit, _ = pushed()
        check_released(project, image, commit, option == "--diff")
        deployment = Deployment(project, overlay, f"{project.repository}@{image.rpartition('@')[2]}", commit)
        objects = deployment.objects()
        running = []
        if option != "--diff":
            running = deployment.check_newer(objects, option == "--allow-older")
            deployment.keep_going(objects, running)
        OBJECTS.write_text(listed(objects), encoding="utf-8")
        if option == "--diff":
            return subprocess.run(["kubectl", "diff", "--filename", OBJECTS], check=False).returncode
        if (data := Path("deploy/overlays", overlay, "data")).is_dir():  # claims outlive what uses them
            printed("kubectl", "apply", "--kustomize", str(data))
        if subprocess.run(["kubectl", "apply", "--filename", OBJECTS], check=False).returncode:
            raise ScriptError(1, f"the cluster did not take deploy/overlays/{overlay}; the reason is above")
        for one in objects:
            if one["kind"] == "Deployment":
                before = [available(was) for was in running if was["metadata"]["name"] == one["metadata"]["name"]]
                wait_for(project, one, max(before, default=0))
    verb = "runs" if project.kind == "service" else "has"
    project.say(f"deploy/overlays/{overlay} {verb} {deployment.image}")
    return 0


def check_asked(overlay: str, option: str) -> None:
    """Raise ScriptError for an overlay or an option that does not exist, and without kubectl."""
    folder = Path("deploy/overlays")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", overlay) or not (folder / overlay).is_dir():
        known = " ".join(sorted(one.name for one in folder.iterdir() if one.is_dir()))
        raise ScriptError(2, f"there is no overlay '{overlay}' in deploy/overlays: take one of {known}")
    if option not in ("", "--diff", "--allow-older"):
        raise ScriptError(2, f"unknown option {option}: see scripts/deploy --help")
    if not shutil.which("kubectl"):
        raise ScriptError(3, "kubectl is missing on this machine")


def take_kubeconfig(files: ExitStack) -> None:
    """Let KUBECONFIG be a file with the text of KUBECONFIG_TEXT, if a pipeline sets that. Raises ScriptError."""
    text = os.environ.get("KUBECONFIG_TEXT")
    if text is None:
        return
    if not text:
        raise ScriptError(2, "KUBECONFIG_TEXT is empty: the secret with the kubeconfig is not set for this build")
    file = files.enter_context(tempfile.NamedTemporaryFile("w"))  # noqa: SIM115 - ExitStack closes it
    file.write(f"{text}\n")
    file.flush()
    os.environ["KUBECONFIG"] = file.name


def check_released(project: Project, image: str, commit: str, only_shown: bool) -> None:
    """Raise ScriptError unless the image is this commit's and was released, where this is known."""
    if not re.fullmatch(rf"{re.escape(project.staging)}@sha256:[0-9a-f]{{64}}", image):
        raise ScriptError(2, f"{PUSHED} names {image}, which is not an image of {project.staging}")
    if commit != project.commit():
        raise ScriptError(1, f"not deployed: the image was pushed from {commit}, this is {project.commit()}")
    proof = PROOF / "promote"
    if PROOF.is_dir() and not only_shown and (not proof.is_file() or proof.read_bytes() != PUSHED.read_bytes()):
        raise ScriptError(1, f"not deployed: scripts/promote did not release {image}")


def wait_for(project: Project, one: dict[str, Any], ran: int) -> None:
    """Wait until all pods of a Deployment are ready, or as many as ran before and no old one. Raises ScriptError."""
    name, namespace = one["metadata"]["name"], one["metadata"].get("namespace", "")
    where = ["--namespace", namespace] if namespace else []
    timeout = os.environ.get("ROLLOUT_TIMEOUT") or "35m"  # two waves, each within progressDeadlineSeconds
    command = ["kubectl", "rollout", "status", f"deployment/{name}", *where, "--timeout", timeout]
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0:
        return
    [now] = documents(printed("kubectl", "get", "--filename", "-", "--output", "json", given=listed([one])))
    status, ready = now.get("status", {}), available(now)
    if 0 < ran <= ready and status.get("updatedReplicas") == status.get("replicas"):
        project.say(f"{ready} pods of {name} run it, as many as before; the others wait, for a GPU or a node")
        return
    undo = " ".join(["kubectl rollout undo", f"deployment/{name}", *where])
    raise ScriptError(1, f"the new pods did not become ready; back to what ran before: {undo}")
