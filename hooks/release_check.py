"""Compare the last release with the work tree as children will see it, and refuse what would hurt them.

Every distinct answer set of the last release is rendered from both, and edited children of each release of the last
two minor versions are really updated. Refused: a file, question, choice or image that is gone and not listed in
templates/retired.yml for this version; an answer that was taken and no longer is, or is no longer kept; an edit that
an update loses, a seed that it changes, a fix that does not arrive; a lost executable bit, a link, conflict markers, a
file that its reader cannot read; tasks, migrations, Jinja extensions and _skip_if_exists; a file on no list; a version
that is not the next; files of the template that cannot be read. The rendered difference is printed for the reviewer.

Exit codes: 0 good, 1 refused (every reason is named).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import runtime_source  # noqa: F401

# isort: split
from fleetkit.speed import compile_templates_once, read_yaml_fast
from releasekit import sources, updates
from releasekit.asked import check_defaults, check_settings, check_validators
from releasekit.check import Check
from releasekit.compared import differences
from releasekit.images import check_images
from releasekit.trees import export, tree_of, work_tree
from releases import HistoryError, next_version, released

ROOT = Path(__file__).resolve().parent.parent

SAMPLED = (
    "every combination of choices, each with none, one and all of every list; every part of one list with the first "
    "choice of all else; parts of two lists at once are a sample"
)


def compare(check: Check, folder: Path, quiet: bool) -> None:
    """Run every check and print what children will see, each difference once with the sets that it reaches."""
    check_settings(check)
    check_images(check)
    check.check_entries()
    check.check_version()
    check_validators(check)
    check_defaults(check)
    reached: dict[str, list[str]] = {}
    for where, text in differences(check, folder):
        reached.setdefault(text, []).append(where)
    check.check_unused()
    print(f"== {sum(map(len, reached.values()))} answer sets of {check.old_version} were compared: {SAMPLED}")
    for text, sets in reached.items():
        print(f"== {len(sets)} answer sets: {'; '.join(sets)}")
        print((text if not quiet else "") or "nothing changes\n" * (not text), end="")
    for reason, sets in check.impossible.items():
        print(f"== {len(sets)} answer sets are not possible: {'; '.join(sets)}: {reason}")


def update_children(check: Check, repository: Path, known: dict[str, str], tree: str, folder: Path) -> None:
    """Update edited children of the recent releases for real, and refuse what it does to them."""
    tag = f"v{next_version(repository)}"
    family = updates.make_family(repository, known, tree, tag, folder / "family")
    jobs = []
    for version in updates.recent(known):
        template = folder / f"release-{version}"
        export(repository, known[version], template)
        jobs += [(start, check.retired_since(version)) for start in updates.starts(template, version)]
    for start, wrong in updates.failures(family, tag, jobs, folder):
        for reason in wrong:
            check.refuse(f"the update of {start.where}: {reason}")
    print(f"== {len(jobs)} edited children were updated from {', '.join(updates.recent(known))}")


def told(refused: list[str], compared_with: str) -> int:
    """Print the reasons and the verdict; return the exit code."""
    for reason in refused:
        print(f"release-check: refused: {reason}", file=sys.stderr)
    print(f"release-check: {'refused' if refused else 'good'}, {compared_with}", file=sys.stderr)
    return 1 if refused else 0


def main() -> int:
    """Check the work tree against the last release; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--quiet", action="store_true", help="name the answer sets, leave the differences out")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        tree = work_tree(options.repository)
        export(options.repository, tree, new)
        if broken := list(sources.faults(new)):
            return told(broken, "and nothing was compared")
        try:
            known = released(options.repository)
        except HistoryError as error:
            print(f"release-check: {error}", file=sys.stderr)
            return 1
        # On the commit of a release itself, that release is what is checked, against the one before.
        known = {version: commit for version, commit in known.items() if tree_of(options.repository, commit) != tree}
        if not known:
            print("release-check: no version is released yet, so no child can be hurt")
            return 0
        version, commit = list(known.items())[-1]
        export(options.repository, commit, old)
        check = Check(old, new, version)
        compare(check, Path(folder), options.quiet)
        update_children(check, options.repository, known, tree, Path(folder))
        return told(check.refused, f"compared with {version}")


if __name__ == "__main__":
    compile_templates_once()
    read_yaml_fast()
    sys.exit(main())
