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
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import runtime_source  # noqa: F401

# isort: split
import yaml
from packaging.version import InvalidVersion
from releasekit import questions, updates
from releasekit.answer_sets import answer_sets, has_any, name_of, new_values, render_nearest
from releasekit.compared import compare, difference, words_of
from releasekit.findings import (
    Finding,
    Report,
    check_entries,
    check_unused,
    check_version,
    entries_of,
    new_entries,
    retired_since,
)
from releasekit.rendered import check_child, check_syntax
from releasekit.repository import export, git, tree_of, work_tree
from releasekit.template import Answers, Template, TemplateError, answers_of, read_template, render
from releases import HistoryError, current, next_version, released

ROOT = Path(__file__).resolve().parent.parent
LINES = 8  # of each list in the summary


@dataclass(frozen=True)
class Rendered:
    """What one answer set gives: its name, what was found, and how its files differ."""

    where: str
    findings: list[Finding]
    patches: dict[str, str]


@contextmanager
def step(what: str) -> Iterator[list[str]]:
    """Print a line for a step when it ends; the body appends what it counted."""
    started, counted = time.monotonic(), list[str]()
    print(f"release-check: {what} ...", end="", flush=True)
    try:
        yield counted
    finally:
        print(f" {' '.join([*counted, ''])}({time.monotonic() - started:.0f} s)", flush=True)


def start_child(template: Template, answers: Answers, folder: Path) -> tuple[Answers | None, list[str]]:
    """Render the nearest possible answer set; return the answers that it records, and why others were rejected."""
    try:
        reasons = render_nearest(template, answers, folder)
    except TemplateError as error:
        return None, [str(error)]
    return {name: value for name, value in answers_of(folder).items() if not name.startswith("_")}, reasons


def compare_child(old: Template, new: Template, answers: Answers, before: Path, after: Path) -> Rendered:
    """Render the new version with the answers that a child records, and compare it."""
    where = name_of(answers, old)
    try:
        render(new.folder, answers, after)
    except TemplateError as error:
        return Rendered(where, [Finding(f"children cannot update: {error}", *lost_answer(answers, before, new))], {})
    findings = [*compare(before, after, old, new), *check_child(after, tuple(new.questions))]
    return Rendered(where, findings, difference(before, after))


def lost_answer(answers: Answers, child: Path, new: Template) -> tuple[str, str]:
    """Return kind and name of the choice or image of a child that the new version does not have, or nothing."""
    for name, value in answers.items():
        for one in value if isinstance(value, list) else [value]:
            if name in new.choices and one not in new.choices[name]:
                return "choice", f"{name}={one}"
    states = questions.image_states(new.folder)
    lost = sorted(word for word in words_of(child) if states.get(word) == "retired")
    return ("image", lost[0]) if lost else ("", "")


def compare_children(
    pool: ProcessPoolExecutor, report: Report, old: Template, new: Template, folder: Path, whole: bool
) -> dict[str, dict[str, list[str]]]:
    """Render and compare every answer set; return the patches of each file with the answer sets that get them."""
    with step("render children of the last release") as counted:
        wanted = [*answer_sets(old, whole)]
        places = [folder / f"{number}-old" for number in range(len(wanted))]
        made = [*pool.map(start_child, [old] * len(wanted), wanted, places)]
        distinct: dict[str, tuple[Answers, Path]] = {}
        for answers, (recorded, reasons), place in zip(wanted, made, places, strict=True):
            if recorded is None:
                report.add(
                    iter([Finding(f"a child of the last release cannot be rendered: {reasons[0]}")]),
                    name_of(answers, old),
                )
            else:
                distinct.setdefault(repr(sorted(recorded.items())), (recorded, place))
        impossible = len({reason for _, reasons in made for reason in reasons})
        counted.append(f"{len(distinct)} answer sets, {impossible} impossible combinations replaced")
    with step("render them from the work tree and compare") as counted:
        sets = list(distinct.values())
        after = [place.with_name(place.name.replace("old", "new")) for _, place in sets]
        done = [
            *pool.map(
                compare_child,
                [old] * len(sets),
                [new] * len(sets),
                [one for one, _ in sets],
                [p for _, p in sets],
                after,
            )
        ]
        added = [one for one in answer_sets(new, whole) if has_any(one, new_values(old, new))]
        more = [folder / f"{len(wanted) + number}-new" for number in range(len(added))]
        for answers, place, (recorded, reasons) in zip(
            added, more, pool.map(start_child, [new] * len(added), added, more), strict=True
        ):
            error = (
                [Finding(f"the work tree cannot be rendered: {reasons[0]}")]
                if recorded is None
                else check_child(place, tuple(new.questions))
            )
            report.add(iter(error), name_of(answers, new))
        patches: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for one in done:
            report.add(iter(one.findings), one.where)
            for path, patch in one.patches.items():
                patches[path][patch].append(one.where)
        counted.append(f"{len(sets)} answer sets, {len(added)} more with new choices, {len(patches)} files differ")
    with step("check the syntax of each rendered file"):
        names = {place.name: one.where for place, one in zip(after, done, strict=True)}
        names |= {place.name: name_of(answers, new) for answers, place in zip(added, more, strict=True)}
        for child, finding in check_syntax(folder, [name for name in names if (folder / name).exists()]):
            report.add(iter([finding]), names[child])
    return patches


def update_children(
    pool: ProcessPoolExecutor,
    report: Report,
    repository: Path,
    known: dict[str, str],
    tree: str,
    new: Path,
    folder: Path,
) -> None:
    """Update edited children of the recent releases for real."""
    with step("update edited children") as counted:
        tag, family, starts = f"v{next_version(repository)}", folder / "family", list[updates.Start]()
        updates.make_family(repository, known, tree, tag, family)
        for version in updates.recent(known):
            export(repository, known[version], folder / version)
            retired = retired_since(entries_of(new), version)
            template = read_template(folder / version)
            starts += updates.starts(template, version, retired, plain=version == [*known][-1])
        places = [folder / f"update-{number}" for number in range(len(starts))]
        results = pool.map(updates.check_one, [family] * len(starts), [tag] * len(starts), starts, places)
        for start, found in zip(starts, results, strict=True):
            where = " ".join(map(str, start.answers.values()))
            report.add((Finding(f"the update of a child of {start.version}: {one.reason}") for one in found), where)
        counted.append(f"{len(starts)} from {', '.join(updates.recent(known))}")


def check(repository: Path, version: str, tree: str, known: dict[str, str], options: argparse.Namespace) -> Report:
    """Run every step, or with `options.passed` those that need no rendering; return what was found."""
    last, commit = list(known.items())[-1]
    context = multiprocessing.get_context("fork")
    with TemporaryDirectory() as name, ProcessPoolExecutor(os.cpu_count() or 1, context) as pool:
        folder = Path(name)
        old, new = folder / "old", folder / "new"
        export(repository, commit, old)
        export(repository, tree, new)
        report = Report(retired_since(entries_of(new), last))
        report.add(check_version(new, last, version))
        report.add(check_entries(old, new, last, version))
        if options.passed:
            return report
        with step("read questions, settings and images"):
            report.add(questions.check_images(old, new))
            try:
                templates = read_template(old), read_template(new)
            except TemplateError as error:
                report.add(iter([Finding(f"no child can start with the defaults: {error}")]))
                return report
            for look in (questions.check_settings, questions.check_questions):
                report.add(look(*templates))
            both = [name for name in templates[0].questions if name in templates[1].questions]
            for found in pool.map(questions.check_validator, *([one] * len(both) for one in templates), both):
                report.add(iter(found))
            report.add(questions.check_start(templates[1]))
            report.add(questions.check_sources(templates[1]))
        patches = compare_children(pool, report, *templates, folder, options.whole)
        report.add(check_unused(report, new_entries(old, new)))
        if not options.no_updates:
            update_children(pool, report, repository, known, tree, new, folder)
        write_patches(repository / "build" / "release-check.patch", patches)
        return report


def write_patches(place: Path, patches: dict[str, dict[str, list[str]]]) -> None:
    """Write the rendered difference, each patch once with the answer sets that get it, and list the files."""
    place.parent.mkdir(exist_ok=True)
    texts = [f"# {some(sets)}\n{patch}" for path in patches.values() for patch, sets in path.items()]
    place.write_text("\n".join(texts), encoding="utf-8")
    lines = [f"  {path}: {sum(map(len, made.values()))} answer sets" for path, made in patches.items()]
    print(f"changed in children: {len(lines)} files, see {place}" if lines else "nothing changes in children")
    print_some(lines)


def print_some(lines: list[str]) -> None:
    """Print the first lines, and how many there are besides."""
    print(
        "\n".join([*lines[:LINES], *([f"  and {len(lines) - LINES} more"] if len(lines) > LINES else [])]),
        end="\n" * bool(lines),
    )


def some(sets: list[str]) -> str:
    """Return the first answer set and how many more there are."""
    return sets[0] + (f" and {len(sets) - 1} more answer sets" if len(sets) > 1 else "")


def verdict(report: Report, last: str) -> int:
    """Print the reasons and the result; return the exit code."""
    reasons = [f"  {reason}{f' ({some(sets)})' if sets[0] else ''}" for reason, sets in report.reasons.items()]
    sys.stdout.flush()
    for line in reasons[: 2 * LINES]:
        print(f"release-check: rejected:{line[1:]}", file=sys.stderr)
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
        known = {one: commit for one, commit in released(repository).items() if tree_of(repository, commit) != tree}
        if not known:
            print("release-check: there is no release yet, so no children")
            return 0
        last = list(known)[-1]
        mark, passed = (
            Path(git(repository, "rev-parse", "--absolute-git-dir").strip(), "release-check"),
            f"{tree} {last}\n",
        )
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
    sys.exit(main())
