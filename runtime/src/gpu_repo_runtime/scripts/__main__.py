"""Do what a script of a repository does: python -m gpu_repo_runtime.scripts FACTS... VERB ARGUMENT...

scripts/lib.sh calls it with what the template knows of the repository. Exit codes: 0 done, 1 failed, 2 wrong use,
3 something is missing on this machine, else that of the program that ran.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

from . import checks, deploy, images, package, probe, tools
from .facts import Project, ScriptError
from .places import become, place
from .settings import read_settings, set_index

IMAGE = (images.build, images.push, images.promote, probe.probe, deploy.deploy)
PROJECT = (checks.lint, checks.test, checks.smoke, tools.setup, tools.update, tools.lock, tools.weights, tools.profile)
LIBRARY = (package.package, package.publish)
VERBS = {verb.__name__: verb for verb in (*IMAGE, *PROJECT, *LIBRARY)}


def main(words: list[str]) -> int:
    """Read the facts and .env, do what the verb says, return the exit code."""
    for name in ("PYTHONPATH", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE"):  # lib.sh sets them for this program alone
        os.environ.pop(name, None)
    project, index, rest = asked(words)
    try:
        project = replace(project, settings=read_settings())
        set_index(index)
        verb, given = project.verb, ["--allow-older" if word == "--back" else word for word in rest]
        if given != rest:
            project.say("--back is now --allow-older; the old name works until version 0.8")
        if verb in VERBS and not (verb == "profile" and project.kind != "library"):
            return VERBS[verb](project, given)
        if verb == "run" and project.kind == "service":
            given = service(project, given)
        if project.kind == "batch" and verb in ("run", "train", "profile"):
            paths_of_the_caller(project)
        stage, *command = given  # a script that only says what runs in the project
        become(project, stage, *command)
    except ScriptError as error:
        if str(error):  # else it was said already
            project.say(str(error))
        return error.code
    except subprocess.CalledProcessError as error:
        project.say(f"{error.cmd[0]} failed; the reason is above")
        return 1
    except OSError as error:  # a program that is missing, a folder that cannot be written to
        project.say(str(error))
        return 3


def asked(words: list[str]) -> tuple[Project, str, list[str]]:
    """Return the repository, the index of its company, and the words after the verb."""
    parser = argparse.ArgumentParser(prog="scripts", allow_abbrev=False)
    for one in fields(Project):
        if one.name not in ("verb", "gpu", "adopted", "settings"):
            parser.add_argument(f"--{one.name}", required=True)
    parser.add_argument("--index", default="")
    parser.add_argument("--adopted", type=json.loads, default={})
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("verb")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    found = vars(parser.parse_args(words))
    index, rest = found.pop("index"), found.pop("rest")
    return Project(**found), index, rest


def service(project: Project, words: list[str]) -> list[str]:
    """Return the stage and the command that start the service, or list its settings. Raises ScriptError."""
    command = ["runtime", "python", "-m", *project.module.split()]
    if words == ["--settings"]:
        return ["runtime", "python", "-m", "gpu_repo_runtime.serving", project.package, "--settings"]
    project.no_options(words)
    port = os.environ.setdefault("PORT", "8000")
    os.environ["PUBLISH"] = f"{port}:{port}"
    url = f"http://localhost:{port}"
    project.say(f"{url}/predict answers when the model is loaded, {url}/docs describes it; Ctrl-C stops it")
    return command


def paths_of_the_caller(project: Project) -> None:
    """Let relative paths among the options be those of the folder from which the script was called.

    JOB_FOLDER tells the job. Raises ScriptError where a container does not see that folder.
    """
    root, stood = Path.cwd().resolve(), Path(project.stood)
    inside = root == stood or root in stood.parents
    if not inside and place(project) in ("docker", "pushed"):
        raise ScriptError(2, f"a container sees only this repository: call it from {root} or a folder in it")
    folder = stood.relative_to(root).as_posix() if inside else str(stood)
    os.environ["JOB_FOLDER"] = "" if folder == "." else folder
    os.environ["JOB_SETTINGS"] = "".join(f" {name}" for name in project.settings)  # for the nodes of a Ray cluster


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
