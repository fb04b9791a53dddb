"""Where each child stands, read from a few small files by a shallow fetch, without Copier."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from gpu_repo_runtime.update.git_calls import call, git
from gpu_repo_runtime.update.template_versions import last_line, template_of, version_of, versions
from packaging.version import Version

from fleetkit.answers import ANSWERS, answers_in
from fleetkit.children import Child, FleetError, check_address, host_in
from fleetkit.git_rules import IN_A_HURRY
from fleetkit.state import Record, State

BASE_IMAGE = re.compile(r"^ARG BASE_IMAGE=\S*?/([a-z0-9-]+):", re.MULTILINE)
OURS = (ANSWERS, "Dockerfile")
LARGEST = "1m"  # weights are megabytes, and nobody looks at them here; a lock is at most some hundred kB
FILTERING = "git -c uploadpack.allowFilter=true upload-pack"  # hosts do it, a folder of this machine only when told to
AS_IT_IS = {"GIT_NO_LAZY_FETCH": "1"}  # what the filter left out is missing, and not asked for


def files_of(child: Child, place: Path) -> dict[str, str]:
    """Return the few files of the child's default branch that tell where it stands."""
    if not (place / "HEAD").exists():
        place.mkdir(parents=True, exist_ok=True)
        git(place, "init", "--quiet", "--bare")
    asked = ["--quiet", "--depth=1", "--no-tags", f"--filter=blob:limit={LARGEST}"]
    if not host_in(child.place):
        asked += [f"--upload-pack={FILTERING}"]
    remote = ("-c", f"remote.child.url={child.url}")  # a filter needs a name of the remote, which git writes down
    git(place, *remote, "fetch", *asked, "--", "child", "+HEAD:refs/heads/now", more=IN_A_HURRY)
    names = "".join(f"refs/heads/now:{name}\n" for name in OURS)
    done = call(place, "cat-file", "--batch=%(objecttype) %(objectsize)", stdin=names.encode(), more=AS_IT_IS)
    done.check_returncode()
    told = done.stdout
    texts: dict[str, str] = {}
    for name in OURS:
        head, _, told = told.partition(b"\n")
        if not head.endswith(b"missing"):
            size = int(head.split()[1])
            texts[name], told = told[:size].decode(errors="replace"), told[size + 1 :]
    return texts


def place_of(state: State, child: Child) -> Path:
    """Return where what was fetched of a child lies."""
    return state.folder / "cache" / "status" / child.name


def image_state(name: str, catalog: dict[str, Any]) -> str:
    """Return what the catalogue says of an image: supported, maintenance, retired or unknown."""
    return next((str(row["state"]) for row in catalog["images"] if row["name"] == name), "unknown")


def checked(source: str, hosts: set[str]) -> str:
    """Return the template's address that a child names, if its host is one of `hosts`. Raises FleetError."""
    check_address(source)
    if host_in(source) not in hosts:
        raise FleetError(f"it follows {source}, whose host is not one of the fleet's")
    return source


def version_held(source: str, name: str) -> Version | None:
    """Return the newest release that is part of a commit, which a child follows by its name."""
    template = template_of(source)
    commit = template.commit(name)
    return version_of(template.release_in(commit)) if commit else None


def status_of(state: State, child: Child, catalog: dict[str, Any], hosts: set[str]) -> Record:
    """Return where one child stands: version, releases behind, image, last outcome, opted-out files."""
    known = state.read(child.name)
    record: Record = {"name": child.name, "url": child.url, "wave": child.wave, "owner": child.owner}
    record |= {"paused": child.paused, "outcome": known.get("outcome", ""), "message": known.get("message", "")}
    record["opted_out"] = [file["path"] for file in known.get("files", []) if file["kind"] == "opted out"]
    if child.paused:
        return record | {"outcome": "paused"}
    try:
        texts = files_of(child, place_of(state, child))
        record["fetched"] = True
        if ANSWERS not in texts:
            raise FleetError(f"it has no {ANSWERS}, so it follows no template (an old repository joins by fleet adopt)")
        answers = answers_in(texts.get(ANSWERS, ""))
        record["version"] = answers["_commit"]
        source = record["source"] = checked(answers["_src_path"], hosts)
        released = versions(source)
        current = version_of(record["version"]) or version_held(source, record["version"])
        record["behind"] = sum(version > current for version in released) if current else None
        image = BASE_IMAGE.search(texts.get("Dockerfile", ""))
        record["image"] = image[1] if image else ""
        record["image_state"] = image_state(record["image"], catalog) if image else "own image"
    except subprocess.CalledProcessError as error:
        record["error"] = last_line(error.stderr if isinstance(error.stderr, str) else error.stderr.decode())
    except FleetError as error:
        record["error"] = str(error)
    except Exception as error:  # one child must not stop the others
        record["error"] = f"no answers that can be read: {last_line(str(error))}"
    return record
