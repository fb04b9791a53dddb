"""The text of a pull request is the message of its commit: a lost request is opened again from the branch alone."""

from gpu_repo_runtime.update.merge import Update

DRAFT = "Template-Draft: yes"
LONGEST = 100  # lines of a list


def listed(title: str, lines: list[str], mark: str) -> list[str]:
    """Return a part of the text, none where there is nothing to list."""
    more = [f"and {len(lines) - LONGEST} more"] if len(lines) > LONGEST else []
    return ["", title, "", *(f"{mark} {line}" for line in lines[:LONGEST] + more)] if lines else []


def message(update: Update) -> str:
    """Return the message of an update's commit."""
    to_do = [f"{one.path}: {one.note}" for one in update.conflicts] + update.to_do
    notes = [f"{one.path}: {one.note}" for one in update.files if one.kind == "opted out"] + update.notes
    return "\n".join(
        [
            f"Update the template from {update.old} to {update.new}",
            "",
            "Your own changes are kept.",
            *listed("This pull request is a draft until these are done:", to_do, "- [ ]"),
            *listed("Notes:", notes, "-"),
            *listed("You have to act (from the template's changelog):", update.act, "-"),
            "",
            f"Template-Update: {update.old}..{update.new}",
            *([DRAFT] if to_do else []),
        ]
    )


def is_draft(text: str) -> bool:
    """Return whether a commit's message has a to-do list."""
    return DRAFT in text.strip().splitlines()[-1:]


def parts(text: str) -> tuple[str, str, bool]:
    """Return title and text of the pull request of a commit's message, and whether it is a draft."""
    title, _, body = text.strip().partition("\n")
    return title, body.strip(), is_draft(text)
