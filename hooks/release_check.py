"""Compare the last release with the work tree as children will see it, and reject what would hurt them.

Children of both are rendered for every pair of choices (--whole: every combination) and compared, and edited children
of each release of the last two minor versions are really updated. The rendered difference is written to
build/release-check.patch. docs/updating.md lists what is rejected.

Exit codes: 0 passed, 1 rejected (with the reasons) or not possible.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import runtime_source  # noqa: F401

# isort: split
import yaml
from git_calls import git
from packaging.version import InvalidVersion
from releasekit import findings, updates
from releasekit.children import Compared, check_settings, compare_child
from releasekit.files import check_child, check_syntax
from releasekit.findings import Finding, Report
from releasekit.template import (
    Answers,
    Template,
    TemplateError,
    answer_sets,
    export,
    name_of,
    read_template,
    start,
    work_tree,
)
from releases import HistoryError, current, next_version, released

ROOT = Path(__file__).resolve().parent.parent
LINES = 8  # of each list in the summary
NEUTRAL = {  # git and Copier without the settings of the person who runs this
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "COPIER_SETTINGS_PATH": os.devnull,
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",  # CI checks out as root
    **{f"GIT_{role}_{what}": text for role in ("AUTHOR", "COMMITTER")
       for what, text in (("NAME", "Release check"), ("EMAIL", "release-check@example.invalid"))},
}  # fmt: skip
Patches = dict[str, dict[str, list[str]]]  # path: patch: the answer sets that get it


@contextmanager
def step(what: str) -> Iterator[list[str]]:
    """Print a line for a step when it ends; the body appends what it counted."""
    started, counted = time.monotonic(), list[str]()
    print(f"release-check: {what} ...", end="", flush=True)
    try:
        yield counted
    finally:
        print(f" {' '.join([*counted, ''])}({time.monotonic() - started:.0f} s)", flush=True)


def start_new(new: Template, answers: Answers, folder: Path) -> Compared:
    """Render a child with a choice that only the new version has, and check its files."""
    try:
        recorded = start(new, answers, folder)
    except TemplateError as error:
        return Compared("", [Finding(f"the work tree cannot be rendered: {error}")])
    return Compared(name_of(recorded, new), [*check_child(folder, (*new.choices, *new.texts))])


def compare_children(pool: ProcessPoolExecutor, report: Report, old: Template, new: Template, folder: Path, whole: bool
                     ) -> Patches:  # fmt: skip
    """Render and compare every answer set; return how the files differ."""
    with step("render children of the last release") as counted:
        wanted = [*answer_sets(old, whole)]
        places = [folder / f"{number}-old" for number in range(len(wanted))]
        recorded = pool.map(start, [old] * len(wanted), wanted, places)
        distinct = {repr(sorted(one.items())): (one, place) for one, place in zip(recorded, places, strict=True)}
        answers, before = zip(*distinct.values(), strict=True)
        counted.append(f"{len(answers)} answer sets")
    with step("render them from the work tree and compare") as counted:
        after = [place.with_name(place.name.replace("old", "new")) for place in before]
        n = len(answers)
        done = [*pool.map(compare_child, [old] * n, [new] * n, answers, before, after)]
        more = [one for one in answer_sets(new, whole) if is_new(one, old)]
        added = [folder / f"{len(wanted) + number}-new" for number in range(len(more))]
        done += pool.map(start_new, [new] * len(more), more, added)
        patches: Patches = defaultdict(lambda: defaultdict(list))
        for one in done:
            report.add(one.findings, one.where)
            for path, patch in one.patches.items():
                patches[path][patch].append(one.where)
        counted.append(f"{n} answer sets, {len(more)} more with new choices, {len(patches)} files differ")
    with step("check the syntax of each rendered file"):
        names = {place.name: one.where for place, one in zip([*after, *added], done, strict=True) if place.exists()}
        for child, finding in check_syntax(folder, list(names)):
            report.add([finding], names[child])
    return patches


def is_new(answers: Answers, old: Template) -> bool:
    """Return whether an answer set has a choice that the last release does not offer."""
    given = [(name, one) for name, value in answers.items() for one in (value if isinstance(value, list) else [value])]
    return any(name not in old.texts and one not in old.choices.get(name, []) for name, one in given)


def update_children(pool: ProcessPoolExecutor, report: Report, repository: Path, known: dict[str, str], tree: str,
                    folder: Path) -> None:  # fmt: skip
    """Update edited children of the recent releases for real."""
    with step("update edited children") as counted:
        tag, family, entries = f"v{next_version(repository)}", folder / "family", findings.read_entries(folder / "new")
        updates.make_family(repository, known, tree, tag, family)
        every = list[updates.Update]()
        for version in updates.recent(known):
            export(repository, known[version], folder / version)
            retired = findings.retired_since(entries, version, [*known][-1])
            template, newest = read_template(folder / version), version == [*known][-1]
            every += updates.updates_of(template, family, tag, version, retired, newest)
        for one, found in zip(every, pool.map(updates.check_update, every), strict=True):
            where = " ".join(map(str, one.answers.values()))
            report.add((Finding(f"{one.name}: {finding.reason}", finding.entries) for finding in found), where)
        counted.append(f"{len(every)} from {', '.join(updates.recent(known))}")


def check(repository: Path, version: str, tree: str, known: dict[str, str], options: argparse.Namespace) -> Report:
    """Run every step, or with `options.passed` those that need no rendering; return what was found."""
    last, commit = list(known.items())[-1]
    context = multiprocessing.get_context("fork")
    with TemporaryDirectory() as name, ProcessPoolExecutor(os.cpu_count() or 1, context) as pool:
        folder = Path(name)
        old, new = folder / "old", folder / "new"
        export(repository, commit, old)
        export(repository, tree, new)
        report = Report(findings.retired_since(findings.read_entries(new), last, last))
        report.add(findings.check_version(new, last, version))
        report.add(findings.check_entries(new))
        if options.passed:
            return report
        try:
            templates = read_template(old), read_template(new)
            report.add(check_settings(*templates))
            patches = compare_children(pool, report, *templates, folder, options.whole)
        except TemplateError as error:
            report.add([Finding(f"no child can start with the defaults: {error}")])
            return report
        if not options.no_updates:
            update_children(pool, report, repository, known, tree, folder)
        write_patches(repository / "build" / "release-check.patch", patches)
        return report


def write_patches(place: Path, patches: Patches) -> None:
    """Write the rendered difference, each patch once with the answer sets that get it, and list the files."""
    place.parent.mkdir(exist_ok=True)
    texts = [f"# {some(sets)}\n{patch}" for path in patches.values() for patch, sets in path.items()]
    place.write_text("\n".join(texts), encoding="utf-8")
    lines = [f"  {path}: {sum(map(len, made.values()))} answer sets" for path, made in patches.items()]
    print(f"changed in children: {len(lines)} files, see {place}" if lines else "nothing changes in children")
    for line in [*lines[:LINES], *([f"  and {len(lines) - LINES} more"] if len(lines) > LINES else [])]:
        print(line)


def some(sets: list[str]) -> str:
    """Return the first answer set and how many more there are."""
    return sets[0] + (f" and {len(sets) - 1} more answer sets" if len(sets) > 1 else "")


def verdict(report: Report, last: str) -> int:
    """Print the reasons and the result; return the exit code."""
    reasons = [f"{reason}{f' ({some(sets)})' if sets[0] else ''}" for reason, sets in report.reasons.items()]
    sys.stdout.flush()
    for reason in reasons[: 2 * LINES]:
        print(f"release-check: rejected: {reason}", file=sys.stderr)
    if len(reasons) > 2 * LINES:
        print(f"release-check: rejected for {len(reasons) - 2 * LINES} more reasons", file=sys.stderr)
    print(f"release-check: {'rejected' if reasons else 'passed'}, compared with {last}", file=sys.stderr)
    return 1 if reasons else 0


def main() -> int:
    """Check the work tree against the last release; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--no-updates", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--whole", action="store_true", help="compare every combination of choices, not every pair")
    parser.add_argument("--version", help="the version to be released (default: the one in VERSION)")
    parser.add_argument("--once", action="store_true", help="do not repeat what passed for the same files")
    options = parser.parse_args()
    repository: Path = options.repository
    try:
        tree, version = work_tree(repository), options.version or current(repository)
        # On the commit of a release, check that release against the one before.
        known = {one: commit for one, commit in released(repository).items()
                 if git(repository, "rev-parse", f"{commit}^{{tree}}").strip() != tree}  # fmt: skip
        if not known:
            print("release-check: there is no release yet, so no children")
            return 0
        last = list(known)[-1]
        mark = Path(git(repository, "rev-parse", "--absolute-git-dir").strip(), "release-check")
        passed = f"{tree} {last}\n"
        options.passed = options.once and mark.exists() and mark.read_text(encoding="utf-8") == passed
        if options.passed:
            print(f"release-check: {tree[:10]} passed before, only the version is checked")
        report = check(repository, version, tree, known, options)
    except (HistoryError, InvalidVersion, OSError, ValueError, yaml.YAMLError) as error:
        print(f"release-check: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    if not report.reasons and not options.no_updates:
        mark.write_text(passed, encoding="utf-8")
    return verdict(report, last)


if __name__ == "__main__":
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GIT_", "COPIER_"))}
    os.environ.clear()
    os.environ.update(kept | NEUTRAL)
    sys.exit(main())
