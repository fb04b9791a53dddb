"""Compare the last release with the work tree as children will see it, and reject what would hurt them.

Children of both are rendered for every pair of choices (--whole: every combination) and compared, and edited children
of each release of the last two minor versions are really updated. The difference of the children with the defaults is
written to build/release-check.patch. CONTRIBUTING.md lists what is rejected.

Exit codes: 0 passed, 1 rejected (with the reasons) or not possible.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import runtime_source  # noqa: F401

# isort: split
import yaml
from gpu_repo_runtime.update.git import Git, UpdateError
from gpu_repo_runtime.update.releases import Releases
from packaging.version import InvalidVersion
from releasekit import findings
from releasekit.compare import check_settings, compare_child
from releasekit.findings import Finding, Report
from releasekit.template import Template, TemplateError, answer_sets, read_template, start
from releasekit.updates import recent, update_children
from releases import current, next_version, released

ROOT = Path(__file__).resolve().parent.parent
LINES = 16  # reasons in the summary
NEUTRAL = {  # git and Copier without the settings of the person who runs this
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "COPIER_SETTINGS_PATH": os.devnull,
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",  # CI checks out as root
}  # fmt: skip


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print a line for a step: what it does when it starts, and how long it took when it ends."""
    started = time.monotonic()
    print(f"release-check: {what} ...", end="", flush=True)
    try:
        yield
    finally:
        print(f" ({time.monotonic() - started:.0f} s)", flush=True)


def compare_children(pool: ProcessPoolExecutor, report: Report, old: Template, new: Template, folder: Path, whole: bool
                     ) -> str:  # fmt: skip
    """Render and compare every answer set; return how the files of the children with the defaults differ."""
    wanted, patch = [*answer_sets(old, whole)], ""
    with step(f"render {len(wanted)} children of each version and compare them"):
        places = [folder / str(number) for number in range(len(wanted))]
        for name, found, diff in pool.map(partial(compare_child, old, new), wanted, places):
            report.add(found, name)
            patch += diff
    with step("start children with a new choice"):
        for name, values in new.choices.items():
            for value in [one for one in values if name in old.choices and one not in old.choices[name]]:
                start(new, {name: [value] if name in new.lists else value}, folder / f"{name}-{value}")
    return patch


def clone(repository: Path, known: dict[str, str], folder: Path) -> Releases:
    """Clone the template with a tag for each release. Raises UpdateError."""
    git = Git(folder / "template.git")
    Git(folder).text("clone", "--quiet", "--bare", "--no-tags", "--", str(repository.resolve()), str(git.folder))
    for version, commit in known.items():
        git.text("tag", "--no-sign", f"v{version}", commit)
    return Releases(git, [f"v{version}" for version in known])


def check(repository: Path, version: str, tree: str, known: dict[str, str], options: argparse.Namespace) -> Report:
    """Run every step, or with `options.passed` those that need no rendering; return what was found."""
    last, context = [*known][-1], multiprocessing.get_context("fork")
    with TemporaryDirectory() as name, ProcessPoolExecutor(os.cpu_count() or 1, context) as pool:
        releases = clone(repository, known, Path(name))
        work = releases.unpacked(releases.git.text("commit-tree", tree, "-m", "The work tree"))
        report = Report(findings.retired_since(findings.read_entries(work), last, last))
        report.add(findings.check_texts(work, last, version))
        if options.passed:
            return report
        try:
            old, new = read_template(releases.unpacked(f"v{last}")), read_template(work)
            report.add(check_settings(old, new))
            patch = compare_children(pool, report, old, new, Path(name), options.whole)
        except TemplateError as error:
            report.add([Finding(f"no child can start with the defaults: {error}")])
            return report
        if not options.no_updates:
            tag = f"v{next_version(repository)}"
            with step(f"update edited children of {', '.join(recent(releases.names))}"):
                for where, found in update_children(pool, releases, new, tag):
                    report.add(found, where)
    place = repository / "build" / "release-check.patch"
    place.parent.mkdir(exist_ok=True)
    place.write_text(patch, encoding="utf-8")
    print(f"changed in the children with the defaults: {patch.count('diff --git ')} files, see {place}")
    return report


def work_tree(git: Git) -> str:
    """Return the git tree of the files as they are, committed or not; the index stays as it is."""
    with TemporaryDirectory() as folder:
        aside = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        git.text("read-tree", "HEAD", env=aside)
        git.text("add", "--all", env=aside)
        return git.text("write-tree", env=aside)


def verdict(report: Report, last: str) -> int:
    """Print the reasons, each with an answer set where it was found, and the result; return the exit code."""
    sys.stdout.flush()
    for reason, sets in list(report.reasons.items())[:LINES]:
        more = f" and {len(sets) - 1} more answer sets" if len(sets) > 1 else ""
        print(f"release-check: rejected: {reason}{f' ({sets[0]}{more})' if sets[0] else ''}", file=sys.stderr)
    if len(report.reasons) > LINES:
        print(f"release-check: rejected for {len(report.reasons) - LINES} more reasons", file=sys.stderr)
    print(f"release-check: {'rejected' if report.reasons else 'passed'}, compared with {last}", file=sys.stderr)
    return 1 if report.reasons else 0


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
        git = Git(repository)
        tree, version = work_tree(git), options.version or current(repository)
        # On the commit of a release, check that release against the one before.
        known = {one: commit for one, commit in released(repository).items()
                 if git.text("rev-parse", f"{commit}^{{tree}}") != tree}  # fmt: skip
        if not known:
            print("release-check: there is no release yet, so no children")
            return 0
        last = list(known)[-1]
        mark = Path(git.text("rev-parse", "--absolute-git-dir"), "release-check")
        passed = f"{tree} {last}\n"
        options.passed = options.once and mark.exists() and mark.read_text(encoding="utf-8") == passed
        if options.passed:
            print(f"release-check: {tree[:10]} passed before, only the version is checked")
        report = check(repository, version, tree, known, options)
    except (UpdateError, InvalidVersion, OSError, ValueError, yaml.YAMLError) as error:
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
