"""Bring a version of the template to many children: see where they stand, plan, push by waves, take back.

  status    where each child stands: version, releases behind, image, last outcome
  drift     write drift.html, drift.json and drift.md: age, end of life, weaknesses in locks, requests that wait
  plan      make every update in a clone, run the child's tests if asked, classify; pushes nothing
  adopt     make the adoption of every old repository of the list in a clone, classify it; pushes nothing
  lock      resolve every child's locks anew in a clone, under its own constraints; pushes nothing
  apply     push what the finished plan holds for one wave and open a request for each; conflicts become drafts
  remind    write a comment under requests that are open for long
  rollback  close the requests of a version, and open a reverting one where it was merged
  report    write fleet.html, fleet.json and fleet.xml of what is known
  list      write the fleet with the children that its hosts list; the one command that needs their tokens to plan

A stopped run goes on where it was. Exit codes: 0 all good, 3 conflicts or things left to do, 4 edits at risk, 5 tests
failed, 6 a child that cannot be updated or pushed (the worst child decides); 1 nothing could be done, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import runtime_source  # noqa: F401

# isort: split
from fleetkit import report
from fleetkit.adopt import adopt_child, adopting
from fleetkit.apply import apply_child
from fleetkit.children import Child, Fleet, FleetError, shown
from fleetkit.fleet_file import load
from fleetkit.git_rules import set_rules
from fleetkit.isolation import Limits, Tests, choose_way
from fleetkit.listing import with_listed
from fleetkit.lock import lock_child, uv, wish_of
from fleetkit.options import parser
from fleetkit.overview import CODES, each, report_of, run_drift, run_list, run_remind, run_status, tell
from fleetkit.pool import Plan, plan_each
from fleetkit.rollback import roll_back, take_adoption_back, take_locks_back
from fleetkit.state import Record, State, digest
from fleetkit.waves import Rules, check_waves, to_push
from gpu_repo_runtime.update.template_versions import UpdateError, versions
from gpu_repo_runtime.update.utf8 import in_utf8


def worst(records: list[Record]) -> int:
    """Return the exit code of the worst outcome."""
    present = {str(record.get("outcome")) for record in records}
    return next((code for outcome, code in CODES.items() if outcome in present), 0)


def known(state: State, fleet: Fleet) -> list[Record]:
    """Return what is remembered of every child."""
    blank = [{"name": c.name, "url": c.url, "wave": c.wave, "owner": c.owner, "outcome": ""} for c in fleet.children]
    return [shown(record) | state.read(record["name"]) for record in blank]


def tests_of(fleet: Fleet, options: argparse.Namespace, always: bool) -> Tests:
    """Return the tests of the children and how they are kept apart. Raises FleetError where they cannot be.

    `always`: code of the children runs even where no tests were asked for.
    """
    hidden = tuple(rule.token_env for rule in fleet.hosts)
    for name in options.test_env:
        if name in hidden:
            raise FleetError(f"--test-env {name}: this is the token of a host, and no child may see it")
    limits = Limits(options.test_limit, int(options.test_memory * 2**30), int(options.test_disk * 2**30))
    runs = always or bool(options.test)
    way = "none" if options.tests_without_isolation or not runs else choose_way(options.test_see)
    return Tests(options.test, limits, way, tuple(options.test_see), tuple(options.test_env), hidden)


def commits_of(plan: Record, to: str, records: list[Record]) -> dict[str, str]:
    """Return the commit of each child that is planned to `to`, those of the waves that were planned before too."""
    before = plan.get("commits", {}) if plan.get("to") == to else {}
    made = {record["name"]: record.get("commit", "") for record in records}
    return {name: commit for name, commit in (before | made).items() if commit}


def run_plan(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Plan every child, write the report, print the outcomes."""
    options.to = version_asked(options.template, options.to)
    options.tests = tests_of(fleet, options, always=False)
    chosen = [child for child in fleet.children if options.wave in (None, child.wave)]
    before = state.plan()
    plan = {"to": options.to, "finished": False, "wave": options.wave, "commits": commits_of(before, options.to, [])}
    state.write_plan(plan)
    records = plan_each(Plan(state, options), chosen, options.jobs)
    shutil.rmtree(state.folder / "cache" / "copier", ignore_errors=True)
    plan |= {"finished": True, "commits": commits_of(before, options.to, records)}
    state.write_plan(plan)
    report.write(state, known(state, fleet), report_of(state, options), f"Fleet plan to {options.to}")
    tell(records, ("name", "outcome", "from", "to", "message"))
    print(f"plan {digest(plan)}")
    return worst(records)


def plan_apart(
    state: State, fleet: Fleet, options: argparse.Namespace, name: str, make: Callable[[bool, Child], Record]
) -> int:
    """Plan what `make` does for each child, where its code reaches nothing; write the report, print the outcomes."""
    chosen = [child for child in fleet.children if options.wave in (None, child.wave)]
    before = state.plan()
    resume = before.get("to") == name and not before.get("finished")
    plan = {"to": name, "finished": False, "wave": options.wave, "commits": commits_of(before, name, [])}
    state.write_plan(plan)
    with ThreadPoolExecutor(options.jobs) as pool:
        records = each(pool, partial(make, resume), chosen, options.command)
    plan |= {"finished": True, "commits": commits_of(before, name, records)}
    state.write_plan(plan)
    report.write(state, known(state, fleet), report_of(state, options), f"Fleet plan: {name}")
    for record in records:
        what = record.get("changes", [])[:3] or record.get("to_do", [])[:3]
        record["what"] = ", ".join(what) or record.get("message", "")
    tell(records, ("name", "outcome", "what"))
    print(f"plan {digest(plan)}")
    return worst(records)


def run_lock(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Plan the renewal of every child's locks."""
    wish, tests = wish_of(options.package, options.upgrade), tests_of(fleet, options, always=True)
    uv()
    own = state.locks()
    return plan_apart(own, fleet, options, wish.name, partial(lock_child, own, wish, tests))


def run_adopt(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Plan the adoption of every repository of the list."""
    tests, own = tests_of(fleet, options, always=True), state.adoptions()
    wish = adopting(own, options.template, version_asked(options.template, options.to))
    return plan_apart(own, fleet, options, wish.name, partial(adopt_child, own, wish, tests))


def version_asked(template: str, to: str | None) -> str:
    """Return the version that was asked for, else the newest. Raises FleetError where there is none of that name."""
    if not template:
        raise FleetError("--template is empty: it needs the address of the template, as the children name it")
    known = list(versions(template).values())
    to = to or (known[-1] if known else "")
    if to not in known:
        raise FleetError(f"the template has no version {to}: there are {', '.join(known) or 'none'}")
    return to


def chosen_state(state: State, options: argparse.Namespace) -> State:
    """Return the state of what a command is about: updates, locks or adoptions."""
    return state.locks() if options.locks else state.adoptions() if options.adoptions else state


def run_apply(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Push the planned updates, locks or adoptions of one wave."""
    state = chosen_state(state, options)
    plan = state.plan()
    if options.plan not in (None, digest(plan)):
        raise FleetError(f"the plan here is {digest(plan)} and not the one that was approved, {options.plan}")
    rules = Rules(options.threshold, options.max_failed, options.soak)
    if plan.get("finished"):
        check_waves(state, fleet, options.wave, plan["to"], rules)
    due = to_push(state, fleet, options.wave, options.max_open, rules.max_failed)
    with ThreadPoolExecutor(options.jobs) as pool:
        records = each(pool, partial(apply_child, state, fleet), due, "apply")
    tell([r | r.get("pushed", {}) for r in records], ("name", "outcome", "branch", "address", "merge", "apply_error"))
    report.write(
        state, known(state, fleet), report_of(state, options), f"Fleet after apply of {plan['to']}, wave {options.wave}"
    )
    failed = any("apply_error" in record for record in records)
    wave = [record for record in known(state, fleet) if record["wave"] == options.wave]
    return CODES["error"] if failed else worst(wave)


def run_rollback(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Take a version back, or the locks that are offered."""
    chosen = [child for child in fleet.children if options.wave in (None, child.wave) and not child.paused]
    own = chosen_state(state, options)

    by_kind = take_locks_back if options.locks else take_adoption_back
    undo = partial(roll_back, own, fleet, options.to) if options.to else partial(by_kind, own, fleet)
    with ThreadPoolExecutor(options.jobs) as pool:
        records = each(pool, undo, chosen, "rollback")
    tell(records, ("name", "rollback", "rollback_error"))
    if not any(record.get("rollback") or "rollback_error" in record for record in records):
        what = "an open or merged renewal of its locks" if options.locks else "an open or merged adoption"
        has = f"{options.to}, merged or waiting" if options.to else what
        raise FleetError(f"no child has {has}: nothing was taken back")
    return CODES["error"] if any("rollback_error" in record for record in records) else 0


def run_report(state: State, fleet: Fleet, options: argparse.Namespace) -> int:
    """Write the report of what is known."""
    state = chosen_state(state, options)
    records, folder = known(state, fleet), report_of(state, options)
    report.write(state, records, folder, "Fleet" + (", locks" * options.locks or ", adoptions" * options.adoptions))
    print(folder / "fleet.html")
    return worst(records)


RUN = {
    "status": run_status, "drift": run_drift, "plan": run_plan, "adopt": run_adopt, "lock": run_lock,
    "apply": run_apply, "remind": run_remind, "rollback": run_rollback, "report": run_report, "list": run_list,
}  # fmt: skip
READS = ("status", "drift", "report", "list", "remind")  # these may run beside one that writes


def main() -> int:
    """Run one command and return the exit code."""
    options = parser(__doc__).parse_args()
    set_rules()
    try:
        fleet, state = with_listed(load(options.fleet)), State(options.state)
        if options.command in READS:
            return RUN[options.command](state, fleet, options)
        with state.alone():
            return RUN[options.command](state, fleet, options)
    except (FleetError, UpdateError) as error:
        print(f"fleet: {shown(str(error))}", file=sys.stderr)
    except KeyboardInterrupt:
        print("fleet: stopped; the same command goes on where it was", file=sys.stderr)
    return 1


if __name__ == "__main__":
    in_utf8()
    sys.exit(main())
