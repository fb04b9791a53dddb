"""From where to where: what a child follows, and to which release of the template it goes."""

from __future__ import annotations

from dataclasses import dataclass

from .answers import ANSWERS, HASH
from .git_calls import UpdateError, call, without_password
from .template_versions import Template, version_of


@dataclass(frozen=True)
class Start:
    """What a child follows: its name in the answers, its commit, and what to tell of it."""

    name: str
    commit: str
    moved: bool = False
    note: str = ""


def followed(template: Template, name: str, text: str) -> Start:
    """Return what a child follows. Raises UpdateError where the template does not have it."""
    named = template.commit(name)
    found = HASH.search(text)
    recorded = template.commit(found[1]) if found else None
    moved = bool(found and named and version_of(name) and found[1] != named)
    if recorded and version_of(name) not in (None, *template.known):
        note = f"the template has no release {name}: the commit in {ANSWERS} counts, {recorded[:12]}"
        return Start(name, recorded, note=note)
    if moved and not recorded:
        note = f"{name} was moved in the template and its old commit is gone: look at a fresh render for what changed"
        return Start(name, named or "", note=note)
    if recorded and moved:
        return Start(name, recorded, True, f"{name} was moved in the template since: a version should never change")
    commit = named or recorded
    if not commit:
        check_is_template(template)
        if version_of(name):
            hint = "tell its owners"
        else:
            hint = "it was made from changes that were never committed, or the template lost it: tell its owners"
        if (template.place / "shallow").exists():
            hint = "it is a shallow clone: git fetch --unshallow there"
        raise UpdateError(f"the template has no version {name} any more, which this repository follows: {hint}")
    return Start(name, commit)


def check_is_template(template: Template) -> None:
    """Raise UpdateError where the address leads elsewhere, as `.` does, which was the template's folder once."""
    tip = "refs/heads/main"
    there = call(template.place, "rev-parse", "--verify", "--quiet", tip).returncode == 0
    if not there or call(template.place, "cat-file", "-e", f"{tip}:copier.yml").returncode == 0:
        return
    raise UpdateError(
        f"{without_password(template.source)}, to which _src_path in {ANSWERS} leads, is not a template (it has no "
        "copier.yml): write the address of the template there, or its whole path, and commit it"
    )


def choose(template: Template, start: Start, to: str | None) -> str | None:
    """Return the tag to update to: `to`, else the newest version; None when there is nothing to do.

    Raises UpdateError.
    """
    known, low = template.known, version_of(start.name)
    low = low if low in known else None  # a name that no release has says nothing: its commit does
    finals = [version for version in known if not version.is_prerelease]
    if to is None:
        if not finals and low is None:
            raise UpdateError(f"the template {without_password(template.source)} has no released version")
        released = [*finals, *([low] if low is not None else [])]
        high = max(released) if released else low
    else:
        high = version_of(to)
    tag = known.get(high) if high else None
    if high is None or tag is None:
        raise UpdateError(f"the template has no version {to}: there are {', '.join(known.values()) or 'none'}")
    if high in template.twice:
        raise UpdateError(f"the template has {high} twice, on different commits: tell its owners")
    if (low and high < low) or (low is None and is_later(template, start.commit, tag)):
        if to is None:
            return None
        raise UpdateError(f"{tag} is older than {start.name}, which this repository follows: Copier cannot go back")
    return None if (low == high and not start.moved) or template.commit(tag) == start.commit else tag


def is_later(template: Template, commit: str, tag: str) -> bool:
    """Tell whether a commit comes after a release."""
    released = template.commit(tag)
    return released is not None and released != commit and template.is_before(released, commit)
