"""Deploy the image that was pushed and checked, by its digest.

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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .facts import PROOF, PUSHED, Project, ScriptError, commit_time, printed

NOTE = "scripts.deploy/commit"
Object = dict[str, Any]  # of Kubernetes


def deploy(project: Project, words: list[str]) -> int:
    """Deploy an overlay, or show what would change."""
    overlay, option = ("".join(one for one in words if one.startswith("-") == is_option) for is_option in (False, True))
    folder = overlay_folder(overlay)
    if option not in ("", "--diff", "--allow-older"):
        raise ScriptError(2, f"unknown option {option}: see scripts/deploy --help")
    image, commit, _ = project.pushed()
    proof, released = PROOF / "promote", f"{project.repository}@{image.rpartition('@')[2]}"
    if option != "--diff" and PROOF.is_dir() and (not proof.is_file() or proof.read_bytes() != PUSHED.read_bytes()):
        raise ScriptError(1, f"not deployed: scripts/promote did not release {image}")
    with kubeconfig():
        objects = rendered(project, str(folder), released, f"{NOTE}={commit} {commit_time()}")
        if option == "--diff":
            diff = ["kubectl", "diff", "--filename", "-"]
            return subprocess.run(diff, input=listed(objects), text=True, check=False).returncode
        running = asked_of_cluster(objects)
        if option != "--allow-older" and os.environ.get("DEPLOY_BACK") != commit:
            check_newest(project, overlay, running, commit)
        before = {one["metadata"]["name"]: one for one in running if one["kind"] == "Deployment"}
        rollouts = [(one, before.get(one["metadata"]["name"], {})) for one in objects if one["kind"] == "Deployment"]
        for new, now in rollouts:
            keep_going(project, new, now)
        if (folder / "data").is_dir():  # claims outlive what uses them
            printed("kubectl", "apply", "--kustomize", f"{folder}/data")
        print(printed("kubectl", "apply", "--filename", "-", given=listed(objects)), flush=True)
        for new, now in rollouts:
            wait_for(project, new, available(now))
    project.say(f"{folder} {'runs' if project.kind == 'service' else 'has'} {released}")
    return 0


def overlay_folder(overlay: str) -> Path:
    """Return the folder of an overlay. Raises ScriptError where there is none, and without kubectl."""
    folders = {one.name: one for one in sorted(Path("deploy/overlays").iterdir()) if one.is_dir()}
    if overlay not in folders:
        raise ScriptError(2, f"there is no overlay '{overlay}' in deploy/overlays: take one of {' '.join(folders)}")
    if not shutil.which("kubectl"):
        raise ScriptError(3, "kubectl is missing on this machine")
    return folders[overlay]


@contextmanager
def kubeconfig() -> Iterator[None]:
    """Let KUBECONFIG be a file with the text of KUBECONFIG_TEXT, if a pipeline sets that. Raises ScriptError."""
    text = os.environ.get("KUBECONFIG_TEXT")
    if text == "":
        raise ScriptError(2, "KUBECONFIG_TEXT is empty: the secret with the kubeconfig is not set for this build")
    with tempfile.NamedTemporaryFile("w") as file:
        if text:
            file.write(f"{text}\n")
            file.flush()
            os.environ["KUBECONFIG"] = file.name
        yield


def rendered(project: Project, folder: str, image: str, note: str) -> list[Object]:
    """Return the objects of a folder, annotated, with an image wherever they name the project's. Raises ScriptError."""
    mention = rf"(?<![^\s\"']){re.escape(project.repository)}([:@][^\s\"']*)?(?![^\s\"'])"  # whatever its tag
    text, found = re.subn(mention, image, printed("kubectl", "kustomize", folder))
    if not found:
        raise ScriptError(2, f"{folder} uses no image {project.repository}")
    annotate = ["kubectl", "annotate", "--local", "--overwrite", "--filename", "-", note, "--output", "json"]
    return objects_of(printed(*annotate, given=text))


def objects_of(text: str) -> list[Object]:
    """Return the objects that kubectl printed: one JSON after the other, or a list."""
    decoder, text = json.JSONDecoder(), text.strip()
    found: list[Object] = []
    while text:
        one, end = decoder.raw_decode(text)
        found += one["items"] if one["kind"] == "List" else [one]
        text = text[end:].lstrip()
    return found


def listed(objects: list[Object]) -> str:
    """Return objects as kubectl reads them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def asked_of_cluster(objects: list[Object]) -> list[Object]:
    """Return objects as they are in the cluster, without those that it does not have. Raises ScriptError."""
    get = ["kubectl", "get", "--filename", "-", "--ignore-not-found", "--output", "json"]
    return objects_of(printed(*get, given=listed(objects)))


def check_newest(project: Project, overlay: str, running: list[Object], commit: str) -> None:
    """Raise ScriptError where something runs that was deployed from a newer commit."""
    for one in running:
        there, _, when = one["metadata"].get("annotations", {}).get(NOTE, "").partition(" ")
        # What does not name the image, such as a namespace, may be shared with other projects.
        if commit_time() < when and project.repository in json.dumps(one):
            ways = f"scripts/deploy {overlay} --allow-older, or DEPLOY_BACK={commit} in CI"
            told = f"{there} of {when} runs already, and {commit} is older"
            raise ScriptError(1, f"not deployed: {told}. To go back to it on purpose: {ways}")


def available(one: Object) -> int:
    """Return how many pods of a Deployment are ready."""
    return int(one.get("status", {}).get("availableReplicas", 0))


def keep_going(project: Project, new: Object, now: Object) -> None:
    """Let half of the pods that run be replaced at a time, where as many or more wait for a GPU.

    A rollout keeps half of the pods that are wanted: if no more run, none ends, and the new ones get no GPU.
    """
    wanted, ready = now.get("spec", {}).get("replicas", 0), available(now)
    update = new["spec"].get("strategy", {}).get("rollingUpdate")
    if update == {"maxSurge": 0, "maxUnavailable": "50%"} and 0 < ready <= wanted - wanted // 2 < wanted:
        update["maxUnavailable"] = wanted - ready // 2
        name = new["metadata"]["name"]
        project.say(f"{ready} of {wanted} pods of {name} run: {ready - ready // 2} are replaced at a time")


def wait_for(project: Project, one: Object, ran: int) -> None:
    """Wait until all pods of a Deployment are ready, or as many as ran before and no old one. Raises ScriptError."""
    name, namespace = one["metadata"]["name"], one["metadata"].get("namespace")
    where = ["--namespace", namespace] if namespace else []
    timeout = os.environ.get("ROLLOUT_TIMEOUT") or "35m"  # two waves, each within progressDeadlineSeconds
    command = ["kubectl", "rollout", "status", f"deployment/{name}", *where, "--timeout", timeout]
    if subprocess.run(command, check=False).returncode == 0:
        return
    [now] = asked_of_cluster([one])
    status, ready = now.get("status", {}), available(now)
    if 0 < ran <= ready and status.get("updatedReplicas") == status.get("replicas"):
        project.say(f"{ready} pods of {name} run it, as many as before; the others wait, for a GPU or a node")
        return
    undo = " ".join(["kubectl rollout undo", f"deployment/{name}", *where])
    raise ScriptError(1, f"the new pods did not become ready; back to what ran before: {undo}")
