"""The image of the project: built here, pushed to staging, released by its digest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import datetime, timezone
from pathlib import Path

from .. import registry
from ..verdict import problems
from .facts import PROOF, PUSHED, Project, ScriptError, commit_time, git
from .places import docker_answers, fetched_weights, stage_image


def build(project: Project, words: list[str]) -> int:
    """Build the image of a stage on the base image."""
    stage = words[0] if words else "runtime"
    if stage not in ("runtime", "test") or words[1:]:
        raise ScriptError(2, f"stage {' '.join(words)} is unknown: take runtime or test")
    pull_base(project)
    name = stage_image(project, stage)
    version = git("describe", "--tags", "--always", "--dirty") or "unknown"
    options = [*labels(project, version), "--build-arg", f"BASE_IMAGE={project.base_image}"]
    if project.kind != "library":
        options += [*weights(), "--build-arg", f"APP_VERSION={version}", "--build-arg", f"APP_IMAGE={name}"]
    # Data and other files that git ignores stay out of the build, as in a fresh clone; src/ goes in as it is.
    ignored = git("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "--", ".", ":!src")
    beside = "image.Dockerfile" if project.dockerfile == "image.Dockerfile" else ""
    text = Path(f"{beside}.dockerignore").read_text(encoding="utf-8")
    Path("build").mkdir(exist_ok=True)
    Path("build/Dockerfile.dockerignore").write_text(f"{ignored}\n{text}", encoding="utf-8", errors="surrogateescape")
    shutil.copyfile(project.dockerfile, "build/Dockerfile")
    if conf := pip_conf():  # a secret of the build is in no layer
        os.environ["PIP_CONF"] = conf
        options += ["--secret", "id=pip.conf,env=PIP_CONF"]
    command = ["docker", "build", "--file", "build/Dockerfile", "--target", stage, *options, "--tag", name, "."]
    if code := subprocess.run(command, check=False).returncode:
        return code
    project.say(f"built {name}")
    return 0


def is_here(image: str) -> bool:
    """Tell whether Docker has an image on this machine. Raises ScriptError without Docker."""
    if not docker_answers():
        raise ScriptError(3, "Docker is not running: start it, or work in .venv (scripts/setup)")
    return subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode == 0


def pull_base(project: Project) -> None:
    """Pull the base image if it is not here. Raises ScriptError."""
    image = project.base_image
    if is_here(image):
        return
    project.say(f"pulling {image}, some gigabytes the first time")
    if subprocess.run(["docker", "pull", "--quiet", image], stdout=subprocess.DEVNULL, check=False).returncode:
        make = f"make images IMAGE={project.row} REGISTRY={project.name.rpartition('/')[0]}"
        told = f"the base image {image} cannot be pulled (see above)"
        raise ScriptError(3, f"{told}: docker login, or run '{make}' in a clone of the template")


def labels(project: Project, version: str) -> list[str]:
    """Return Docker's options for the labels; without them, those of the base image would remain."""
    name, _, digest = project.base_image.partition("@")
    values = {"version": version, "revision": project.commit(), "created": commit_time(), "base.name": name}
    values |= {"base.digest": digest} if digest else {}
    return [word for key, value in values.items() for word in ("--label", f"org.opencontainers.image.{key}={value}")]


def pip_conf() -> str:
    """Return the package index as pip's configuration, "" where there is none."""
    names = {"PIP_INDEX_URL": "index-url", "PIP_EXTRA_INDEX_URL": "extra-index-url", "PIP_TRUSTED_HOST": "trusted-host"}
    values = [f"{key} = {os.environ[name]}\n" for name, key in names.items() if os.environ.get(name)]
    return f"[global]\n{''.join(values)}" if values else ""


def weights() -> list[str]:
    """Return Docker's options for what weights.lock names. Raises ScriptError."""
    where = os.environ.get("WEIGHTS_IN") or "image"
    if where not in ("image", "volume"):
        raise ScriptError(2, f"WEIGHTS_IN={where} is unknown: take image or volume")
    if not Path("weights.lock").is_file():
        return []
    return ["--build-context", f"weights={fetched_weights(*(['--lock-only'] if where == 'volume' else []))}"]


def push(project: Project, words: list[str]) -> int:
    """Push the image to staging and write its digest to build/image.txt."""
    project.no_options(words)
    if not is_here(project.image):
        raise ScriptError(2, f"there is no image {project.image} here: run scripts/build first")
    PUSHED.parent.mkdir(exist_ok=True)
    PUSHED.unlink(missing_ok=True)
    project.say(f"pushing {project.image}")
    staged = registry.push(project.image, project.staging)
    now = datetime.now(timezone.utc).isoformat()  # noqa: UP017 - an agent may have an older Python
    PUSHED.write_text(f"{staged}\n{project.commit()}\n{now}\n", encoding="utf-8")
    project.say(f"pushed {project.image} as {staged}")
    return 0


def promote(project: Project, words: list[str]) -> int:
    """Give a tag of the releases to the image that was pushed and checked."""
    tag, rest = "".join(words[:1]), words[1:]
    if rest not in ([], ["--allow-older"]):
        raise ScriptError(2, "see scripts/promote --help")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", tag):
        raise ScriptError(2, f"'{tag}' is not a tag: scripts/promote main or scripts/promote v1.2.3")
    if not shutil.which("skopeo"):
        raise ScriptError(3, "skopeo is missing: Debian has it (apt-get install skopeo)")
    image, commit, when = project.pushed()
    if reasons := problems(PROOF, commit, image=image, pushed=when):
        raise ScriptError(1, "\n".join([f"{image} is not released:", *reasons]))
    name = f"{project.repository}:{tag}"
    registry.promote(image, name, commit, commit_time(), bool(rest))
    project.say(f"{name} is {image.rpartition('@')[2]}")
    shutil.copyfile(PUSHED, PROOF / "promote")
    return 0
