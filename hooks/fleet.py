"""Bring a release of the template to many repositories.

  status             each child's version (behind the newest or not), its open pull request and the state of its CI;
                     a draft is no error
  push [--to vX.Y.Z] update each child on a branch and open a pull request: a draft with a to-do list where a person
                     has to act. --canary: only the canaries. Without it the others follow, once one canary is green or
                     merged and none is red; --no-wait does not wait. --dry-run pushes nothing. Run it again to
                     continue: nothing is done twice
  close --to vX.Y.Z  close the pull requests of a release that is withdrawn

Exit codes: 0 good; 1 nothing could be done; 2 wrong usage; 3 a draft waits for a person; 4 the canaries do not let
the others follow; 5 a child could not be reached or updated.
"""

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import runtime_source  # noqa: F401

# isort: split
from fleetkit.access import access
from fleetkit.children import find_children, host_of
from fleetkit.fleet_file import Child, FleetFile, load
from fleetkit.parallel import each
from fleetkit.push import close_child, push_child
from fleetkit.rows import Row, as_html, as_json, as_table, code
from fleetkit.status import status_child, wave_opens
from gpu_repo_runtime.update.git import UpdateError, clean
from gpu_repo_runtime.update.releases import Releases, find_releases, number


def release(text: str) -> str:
    """Return the name of a release from the command line."""
    if not re.fullmatch(r"v?\d+\.\d+\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a release: expected vX.Y.Z")
    return f"v{text.removeprefix('v')}"


def options() -> argparse.ArgumentParser:
    """Return the command line."""
    top = argparse.ArgumentParser("fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--file", type=Path, default=Path("fleet.yml"), metavar="FILE")
    top.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="NUMBER")
    commands = top.add_subparsers(dest="command", required=True)
    for name in ("status", "push", "close"):
        command = commands.add_parser(name)
        command.add_argument("--json", action="store_true", help="print for a program")
        command.add_argument("--html", type=Path, metavar="FILE", help="also write a page")
        command.add_argument("--only", action="append", default=[], metavar="NAME", help="this child; more than once")
        if name != "status":
            command.add_argument("--to", type=release, required=name == "close", metavar="vX.Y.Z")
        if name == "push":
            command.add_argument("--canary", action="store_true", help="only the canaries")
            command.add_argument("--no-wait", action="store_true", help="do not wait for the canaries")
            command.add_argument("--dry-run", action="store_true", help="push nothing, print the same for every child")
    return top


def template_of(fleet: FleetFile, place: str) -> Releases:
    """Clone the template into a folder and return its releases. Raises UpdateError."""
    return find_releases(fleet.template, access(Path(place), fleet.template, host_of(fleet, fleet.template)))


def push(fleet: FleetFile, children: Sequence[Child], given: argparse.Namespace) -> tuple[str, list[Row], int]:
    """Push a release to the children whose turn it is; return a header, the rows and the exit code."""
    canaries, reason = [child for child in children if child.canary], ""
    with tempfile.TemporaryDirectory(prefix="fleet-template-") as place:
        releases = template_of(fleet, place)
        to = releases.named(given.to)
        if not (given.canary or given.no_wait or given.dry_run):
            standing = each(status_child, canaries, to, jobs=given.jobs)
            opens, reason = wave_opens(standing)
            if not opens:
                return f"push {to}: not yet, {reason}", standing, 4
        chosen = [
            child for child in (canaries if given.canary else children) if child.name in given.only or not given.only
        ]
        rows = each(push_child, chosen, releases, fleet.template, to, given.dry_run, jobs=given.jobs, rendering=True)
    reason = "dry run: nothing is pushed" if given.dry_run else reason
    head = f"push {to} to {len(chosen)} of {len(children)} children" + (f" ({reason})" if reason else "")
    return head, rows, code(rows)


def status(fleet: FleetFile, children: Sequence[Child], jobs: int) -> tuple[str, list[Row], int]:
    """Report where each child stands; return a header, the rows, and an exit code that only an unread child changes.

    Raises UpdateError.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-template-") as place:
        releases = template_of(fleet, place)
        newest, withdrawn = releases.names[-1], releases.git.text("tag", "--list", "withdrawn/*").splitlines()
    rows = each(status_child, children, jobs=jobs)
    for row in rows:
        row.behind = bool(row.version) and number(row.version) < number(newest)
        row.withdrawn = f"withdrawn/{row.version}" in withdrawn
    head = f"status, newest release {newest}, template {clean(fleet.template)}"
    return head, rows, code([row for row in rows if row.state != "draft"])


def close(fleet: FleetFile, children: Sequence[Child], given: argparse.Namespace) -> tuple[str, list[Row], int]:
    """Close the pull requests of a release; return a header that says how to withdraw it, the rows and the exit code.

    Raises UpdateError.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-template-") as place:
        is_release = given.to in template_of(fleet, place).names
    rows = each(close_child, children, given.to, jobs=given.jobs)
    command = f"git push origin {given.to}:refs/tags/withdrawn/{given.to}"
    more = f"; {given.to} is still a release, withdraw it in the template: {command}" if is_release else ""
    return f"close {given.to}, template {clean(fleet.template)}{more}", rows, code(rows)


def run(given: argparse.Namespace) -> tuple[str, list[Row], int]:
    """Run one command; return a header, the rows and the exit code. Raises UpdateError."""
    fleet = load(given.file)
    children = find_children(fleet)
    if unknown := set(given.only) - {child.name for child in children}:
        raise UpdateError(f"there is no child {', '.join(sorted(unknown))}")
    if given.command == "push":
        return push(fleet, children, given)
    chosen = [child for child in children if not given.only or child.name in given.only]
    if given.command == "status":
        return status(fleet, chosen, given.jobs)
    return close(fleet, chosen, given)


def main() -> int:
    """Run one command and return the exit code."""
    given = options().parse_args()
    try:
        head, rows, result = run(given)
        if given.html:
            given.html.parent.mkdir(parents=True, exist_ok=True)
            given.html.write_text(as_html(head, rows), encoding="utf-8")
    except UpdateError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fleet: stopped; run the same command again to continue", file=sys.stderr)
        return 1
    print(as_json(head, rows, result) if given.json else as_table(head, rows))
    return result


if __name__ == "__main__":
    sys.exit(main())
