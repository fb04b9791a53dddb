"""Let children build on an earlier release of an image again: the release record and the moving tag go back to it."""

from __future__ import annotations

import argparse
import json
import subprocess
from typing import Any

from . import cosign, registry
from .catalog import FOLDER, ImageError, find_row
from .record import RECORD, check_writable, read_record, write_entry


def git(*arguments: str) -> str:
    """Return what git prints in base-images. Raises ImageError."""
    done = subprocess.run(["git", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"git {arguments[0]}: {done.stderr.strip().splitlines()[-1]}; nothing was changed")
    return done.stdout


def roll_back(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Go back to the release before, or to the one with DIGEST: the history of the record has the proof of each.

    A key in base-images/keys has to have signed it. Commit the record and release the family: children then get it.
    """
    row = find_row(catalog, arguments.image)
    name, repository = row["name"], f"{arguments.registry}/{row['name']}"
    check_writable(RECORD)
    now = read_record(RECORD).get(name, {}).get("digest")
    for commit in git("log", "--format=%H", "--", RECORD.name).split():  # newest first
        known = json.loads(git("show", f"{commit}:./{RECORD.name}")).get(name)
        if known and (known["digest"] == arguments.digest if arguments.digest else known["digest"] != now):
            break
    else:
        what = f"with {arguments.digest}" if arguments.digest else "before this one"
        raise ImageError(f"{RECORD.name}: its history has no release of {name} {what}; nothing was changed")
    image = f"{repository}@{known['digest']}"
    if public := cosign.public_key("release"):
        cosign.check(image, public)
    registry.set_tag(image, repository, str(catalog["release"]))
    bill = RECORD.parent / known["sbom"]
    bill.parent.mkdir(exist_ok=True)
    bill.write_text(git("show", f"{commit}:./{known['sbom']}"))
    write_entry(RECORD, name, known)
    print(f"{repository}:{catalog['release']} is {known['tag']} again, {known['digest']}; commit {RECORD.name}")
