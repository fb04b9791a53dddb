"""The command `python -m image_tools`: one verb per Make target of the images."""

import argparse
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from . import build, check, lock, pipelines, promote, push, record, rollback, sbom, smoke
from .catalog import DEFAULT_REGISTRY, ImageError, read_catalog


def parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    registry = os.environ.get("REGISTRY") or DEFAULT_REGISTRY
    staging = os.environ.get("STAGING", "")
    main = argparse.ArgumentParser(prog="image_tools", description=__doc__)
    verbs = main.add_subparsers(dest="verb", required=True)

    def verb(name: str, action: Callable[..., Any], help_text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=help_text)
        sub.set_defaults(action=action)
        sub.add_argument("--image", default="", help="name of a row; all live rows when left out")
        sub.add_argument("--registry", default=registry, help="where images are pushed, and named after")
        sub.add_argument("--staging", default=staging, help="where images wait for promotion (REGISTRY-staging)")
        return sub

    verb("build", build.build, "build one row after another").add_argument("--devel", action="store_true")
    verb("lock", lock.renew, "resolve a row again, show what changed").add_argument("--upgrade", action="store_true")
    verb("check", check.check, "prove the rows against the locks")
    verb("pipelines", pipelines.write, "write the rows into the pipelines of this repository")
    sub = verb("push", push.push, "push a local image under a staging tag")
    sub.add_argument("--sign", default="", help="the file of the private key to sign with")
    sub = verb("sbom", sbom.write_all, "write the list of packages (SPDX) of a local image")
    sub.add_argument("--scan", action="store_true", help="look for known vulnerabilities in it")
    sub = verb("promote", promote.promote, "smoke a pushed digest and give it the release tags")
    sub.add_argument("--digest", default="", help="the digest to promote; the local image's, pushed now, when left out")
    sub.add_argument("--pushed", default="", help="what `push` noted on another machine, instead of a digest")
    sub.add_argument("--record", default="", help="the record file; base-images/released.json when left out")
    sub.add_argument("--require", default="", help="what the smoke test demands; what the row does when left out")
    sub.add_argument("--smoke", default="", help="the report of smoke-digest instead of a smoke test here")
    sub.add_argument("--sign", default="", help="the file of the private key to sign the release with")
    sub.add_argument("--only-changed", action="store_true", help="not when the packages are those of the release")
    verb("roll-back", rollback.roll_back, "go back to an earlier release").add_argument(
        "--digest", default="", help="which one; the release before when left out"
    )
    sub = verb("smoke-digest", smoke.smoke_row, "smoke a pushed digest on this machine's GPU")
    sub.add_argument("--digest", default="", help="the digest; that of the last push when left out")
    sub.add_argument("--require", default="", help="driver, gpu or framework; as far as the row goes when left out")
    verb("verify", promote.verify, "check signature and provenance of what is released").add_argument(
        "--digest", default="", help="another digest than the released one"
    )
    verb("records", record.take, "take the records that CI archived").add_argument("source_folder", nargs="?")
    return main


def check_names(registry: str, digest: str) -> None:
    """Raise ImageError for what no registry can have, before one is asked."""
    if not re.fullmatch(r"[\w.-]+(:\d+)?(/[a-z0-9._-]+)*", registry):
        raise ImageError(f"{registry}: expected a registry without https://, for example {DEFAULT_REGISTRY}")
    if digest and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ImageError(f"DIGEST={digest}: expected sha256: and 64 small hexadecimal digits, as `make push` prints it")


def main() -> int:
    """Run one verb; a problem is one line on standard error and exit code 1."""
    arguments = parser().parse_args()
    try:
        check_names(arguments.registry, getattr(arguments, "digest", ""))
        return arguments.action(read_catalog(), arguments) or 0
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        if error.filename != "docker":
            raise
        print("error: docker is not installed here: this needs a Docker Engine", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
