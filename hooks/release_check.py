"""Compare the last release with the work tree as children will see it, and reject what would hurt them.

Children of both are rendered for every pair of choices and compared, and edited children of
each release of the last two minor versions are really updated. The difference of the children with the defaults is
written to build/release-check.patch.

Rejected: a file, question, choice or image that is removed, or a question that accepts less, unless it is listed in
templates/retired.yml with version and reason; answers that are lost or changed; updates that fail, change a seed file,
lose an edit or miss a fix; invalid files; a version that does not follow the last one or is not in CHANGELOG.md.

Exit codes: 0 passed, 1 rejected (with the reasons) or not possible.
"""

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import runtime_source  # noqa: F401

# isort: split
import yaml
from gpu_repo_runtime.update.git import Git, UpdateError
from gpu_repo_runtime.update.releases import Releases
from packaging.version import InvalidVersion
from releasekit.compare import compare_child
from releasekit.findings import Finding, Report, check_texts, read_entries, retired_since, unproven_rows
from releasekit.template import Answers, Template, TemplateError, answer_sets, read_template, start
from releasekit.updates import recent, update_children
from releases import current, next_version, released

ROOT = Path(__file__).resolve().parent.parent
LINES = 16  # reasons in the summary
UNSEEN = {"CHANGELOG.md", "CONTRIBUTING.md", "README.md", "benchmarks", "docs", "fleet.yml", "tests"}  # by children
NEUTRAL = {  # git and Copier without the settings of the person who runs this
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "COPIER_SETTINGS_PATH": os.devnull,
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",  # CI checks out as root
}  # fmt: skip


def step(what: str) -> None:
    """Print what is done next."""
    print(f"release-check: {what} ...", flush=True)


def compare_children(pool: ProcessPoolExecutor, report: Report, old: Template, new: Template, folder: Path,
                     wanted: list[Answers]) -> str:  # fmt: skip
    """Render and compare the answer sets; return how the files of the children with the defaults differ."""
    patch = ""
    step(f"render {len(wanted)} children of each version and compare them")
    places = [folder / str(number) for number in range(len(wanted))]
    for number, (name, found, diff) in enumerate(pool.map(partial(compare_child, old, new), wanted, places), start=1):
        report.add(found, name)
        patch += diff
        if number % 25 == 0:
            step(f"{number} of {len(wanted)}")
    step("start children with a new choice")
    for name in old.choices.keys() & new.choices.keys():
        for value in (one for one in new.choices[name] if one not in old.choices[name]):
            start(new, {name: [value] if name in new.lists else value}, folder / f"{name}-{value}")
    return patch


def clone(repository: Path, known: dict[str, str], folder: Path) -> Releases:
    """Clone the template with a tag for each release. Raises UpdateError."""
    git = Git(folder / "template.git")
    Git(folder).text("clone", "--quiet", "--bare", "--no-tags", "--", str(repository.resolve()), str(git.folder))
    for version, commit in known.items():
        git.text("tag", "--no-sign", f"v{version}", commit)
    return Releases(git, [f"v{version}" for version in known])


def check(report: Report, repository: Path, tree: str, known: dict[str, str], options: argparse.Namespace) -> None:
    """Render, compare and update children of the last release and of the work tree; report what is wrong."""
    context = multiprocessing.get_context("fork")
    with TemporaryDirectory() as name, ProcessPoolExecutor(os.cpu_count() or 1, context) as pool:
        releases = clone(repository, known, Path(name))
        work = releases.unpacked(releases.git.text("commit-tree", tree, "-m", "The work tree"))
        try:
            old, new = read_template(releases.unpacked(releases.names[-1])), read_template(work)
            links = sorted(path for path in new.root.rglob("*") if path.is_symlink())
            report.add(Finding(f"{path.relative_to(work)} is a link: Windows cannot check it out") for path in links)
            wanted = [*answer_sets(old, next_version(repository))]
            patch = compare_children(pool, report, old, new, Path(name), wanted)
        except TemplateError as error:
            return report.add([Finding(f"no child can start with the defaults: {error}")])
        if not options.no_updates:
            step(f"update edited children of {', '.join(recent(releases.names))}")
            for where, found in update_children(pool, releases, new, f"v{next_version(repository)}"):
                report.add(found, where)
    place = repository / "build" / "release-check.patch"
    place.parent.mkdir(exist_ok=True)
    place.write_text(patch, encoding="utf-8")
    print(f"changed in the children with the defaults: {patch.count('diff --git ')} files, see {place}")


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
    parser.add_argument("--version", help="the version to be released (default: the one in VERSION)")
    options = parser.parse_args()
    repository: Path = options.repository
    try:
        git = Git(repository)
        tree = work_tree(git)
        # On the commit of a release, check that release against the one before.
        known = {one: commit for one, commit in released(repository).items()
                 if git.text("rev-parse", f"{commit}^{{tree}}") != tree}  # fmt: skip
        if not known:
            print("release-check: there is no release yet, so no children")
            return 0
        last = list(known)[-1]
        report = Report(retired_since(read_entries(repository), last, last))
        report.add(check_texts(repository, last, options.version or current(repository)))
        if names := unproven_rows(repository):
            told = f"no smoke test on a GPU is recorded for {', '.join(names)}: run `make promote` before the release"
            print(f"release-check: warning: {told}", file=sys.stderr)
        mark = Path(git.text("rev-parse", "--absolute-git-dir"), "release-check")
        seen = [row for row in git.text("ls-tree", tree).splitlines() if row.partition("\t")[2] not in UNSEEN]
        passed = "\n".join([*seen, last])
        if mark.exists() and mark.read_text(encoding="utf-8") == passed:
            print("release-check: what children see passed before: only version and changelog are checked")
        elif not report.reasons:  # else this is quickly repaired
            check(report, repository, tree, known, options)
            if not report.reasons and not options.no_updates:
                mark.write_text(passed, encoding="utf-8")
    except (UpdateError, InvalidVersion, OSError, ValueError, yaml.YAMLError) as error:
        print(f"release-check: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return verdict(report, last)


if __name__ == "__main__":
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GIT_", "COPIER_"))}
    os.environ.clear()
    os.environ.update(kept | NEUTRAL)
    sys.exit(main())
