"""How an image was made, as SLSA's provenance words it: the row, the commit, the lock, the operating system's image.

It is written when the image is pushed and not by BuildKit, whose own statement carries the time of the build in the
image's index: its digest would be another at every build.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import cosign
from .catalog import ImageError, lock_path, sha256_of
from .record import Pushed

BUILD_TYPE, BUILDER = "urn:gpu-repo-family:make-images:1", "urn:gpu-repo-family:make-push"
RUNS = ("BUILD_URL", "CI_JOB_URL", "GITHUB_RUN_ID")  # what Jenkins, GitLab and GitHub call a run


def predicate(catalog: dict[str, Any], row: dict[str, Any], pushed: Pushed) -> dict[str, Any]:
    """Return how a row's image was made."""
    name, _, pinned = (os.environ.get("OS_IMAGE") or str(catalog["operating_system"])).partition("@sha256:")
    lock = lock_path(row["name"])
    sources = {
        "git+repository": {"gitCommit": pushed.commit.removesuffix("-dirty")},
        f"base-images/{row['name']}/{lock.name}": {"sha256": sha256_of(lock)},
        f"docker://{name}": {"sha256": pinned} if pinned else {},
    }
    run = next((os.environ[name] for name in RUNS if os.environ.get(name)), "")
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "row": row["name"],
                "release": str(catalog["release"]),
                "commit": pushed.commit,
            },
            "resolvedDependencies": [{"uri": uri, "digest": digest} for uri, digest in sources.items()],
        },
        "runDetails": {
            "builder": {"id": BUILDER},
            "metadata": {"finishedOn": pushed.pushed, "invocationId": run},
        },
    }


def check_provenance(row: dict[str, Any], pushed: Pushed, public: Path) -> dict[str, Any]:
    """Return how an image was made; raise ImageError unless its signer says that it is this row's, of this commit.

    An image that was pushed twice has two statements: one of them has to fit. commit: "" accepts any.
    """
    wanted = {"row": row["name"]} | ({"commit": pushed.commit} if pushed.commit else {})
    told = cosign.stated(pushed.image, cosign.SLSA, public)
    for one in told:
        if wanted.items() <= one["buildDefinition"]["externalParameters"].items():
            return dict(one)
    parameters = [one["buildDefinition"]["externalParameters"] for one in told]
    found = "; ".join(in_words({key: one.get(key) for key in wanted}) for one in parameters)
    raise ImageError(f"{pushed.image}: was built from {found}, not {in_words(wanted)}; no tag was set")


def in_words(parameters: dict[str, Any]) -> str:
    """Return the parameters of a build as they are shown."""
    return ", ".join(f"{key} {value}" for key, value in parameters.items())
