"""The command line of hooks/fleet.py."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from fleetkit.children import WAVES
from fleetkit.numbers_given import amount, at_least_one, count, share

TEST = "the child's own tests, for example 'scripts/setup && scripts/test'"


def add_test_options(plan: argparse.ArgumentParser) -> None:
    """Add what the children's tests may take and see."""
    plan.add_argument("--test", metavar="COMMAND", help=TEST)
    plan.add_argument("--test-limit", type=amount, default=1800, metavar="SECONDS")
    plan.add_argument("--test-memory", type=amount, default=8, metavar="GIB", help="of one child (default: 8)")
    plan.add_argument("--test-disk", type=amount, default=8, metavar="GIB", help="of one child, in memory (default: 8)")
    plan.add_argument(
        "--test-see", action="append", default=[], metavar="PLACE", help="a file or folder that tests may read"
    )
    plan.add_argument("--test-env", action="append", default=[], metavar="NAME", help="a variable that tests may see")
    plan.add_argument(
        "--tests-without-isolation", action="store_true", help="let tests reach everything that you can reach"
    )


def add_kinds(command: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup, words: str) -> None:
    """Add the options that name what a command is about, where it is not updates."""
    kinds = command.add_mutually_exclusive_group() if isinstance(command, argparse.ArgumentParser) else command
    kinds.add_argument("--locks", action="store_true", help=words.format("lock"))
    kinds.add_argument("--adoptions", action="store_true", help=words.format("adopt"))


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the options."""
    top = argparse.ArgumentParser(
        prog="fleet", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--fleet", type=Path, default=Path("fleet.yml"), help="fleet.yml, or a folder of repositories")
    top.add_argument("--state", type=Path, default=Path("build/fleet"), help="where the tool remembers")
    top.add_argument("--report", type=Path, help="where the report goes (default: the state's folder)")
    top.add_argument("--jobs", type=at_least_one, default=os.cpu_count() or 1)
    commands = top.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status")
    status.add_argument("--json", action="store_true")
    drift = commands.add_parser("drift")
    drift.add_argument("--json", action="store_true")
    drift.add_argument(
        "--advisories", type=Path, metavar="PLACE", help="known weaknesses: a folder or zip of OSV files (PyPI/all.zip)"
    )
    remind = commands.add_parser("remind")
    remind.add_argument("--days", type=amount, default=7, help="how long a request is open before (default: 7)")
    remind.add_argument("--every", type=amount, default=7, metavar="DAYS", help="and again after (default: 7)")
    remind.add_argument("--dry-run", action="store_true", help="say who would be reminded, and write nothing")
    remind.add_argument("--json", action="store_true")
    plan = commands.add_parser("plan")
    plan.add_argument("--template", required=True, help="the address of the template, as the children name it")
    plan.add_argument("--to", metavar="vX.Y.Z", help="the version to bring (default: the newest)")
    plan.add_argument("--wave", choices=WAVES)
    plan.add_argument(
        "--child-limit", type=amount, default=900, metavar="SECONDS", help="for one child, without its tests"
    )
    add_test_options(plan)
    adopt = commands.add_parser("adopt")
    adopt.add_argument("--template", required=True, help="the address of the template, as others find it")
    adopt.add_argument("--to", metavar="vX.Y.Z", help="the version to follow (default: the newest)")
    adopt.add_argument("--wave", choices=WAVES)
    add_test_options(adopt)
    lock = commands.add_parser("lock")
    lock.add_argument(
        "--package", action="append", default=[], metavar="NAME", help="renew this one, for example 'starlette>=0.49.1'"
    )
    lock.add_argument("--upgrade", action="store_true", help="renew every package")
    lock.add_argument("--wave", choices=WAVES)
    add_test_options(lock)
    apply = commands.add_parser("apply")
    apply.add_argument("--wave", choices=WAVES, required=True)
    add_kinds(apply, "what `fleet {}` planned, in place of updates")
    apply.add_argument(
        "--threshold", type=share, default=0.9, metavar="0..1",
        help="share of the earlier waves that must be merged or green (default: 0.9)",
    )  # fmt: skip
    apply.add_argument(
        "--max-failed", type=share, default=0.2, metavar="0..1",
        help="share of the children with a verdict that may be red (default: 0.2)",
    )  # fmt: skip
    apply.add_argument(
        "--soak",
        type=amount,
        default=0,
        metavar="HOURS",
        help="how long the earlier waves have had it (default: 0)",
    )
    apply.add_argument("--plan", metavar="sha256:...", help="apply this plan only: what `fleet plan` printed")
    apply.add_argument("--max-open", type=count, help="no more open requests than this in the fleet")
    rollback = commands.add_parser("rollback")
    taken = rollback.add_mutually_exclusive_group(required=True)
    taken.add_argument("--to", metavar="vX.Y.Z", help="the version to take back")
    add_kinds(taken, "what `fleet {}` brought, open or merged")
    rollback.add_argument("--wave", choices=WAVES)
    report = commands.add_parser("report")
    add_kinds(report, "of what `fleet {}` planned")
    listed = commands.add_parser("list")
    listed.add_argument("to_file", type=Path, metavar="FILE", help="the fleet file that is written")
    return top
