"""What the stories of whole fleets came to, from their result files."""

from __future__ import annotations

from textwrap import fill, indent

from docs.figures.measured import load, machine_of, percent

WIDTH = 130
FLEET = """\
Played by `make bench-fleet-hosts` on {machine}: {children} small children on stand-ins for GitHub and GitLab that \
merge for real, {odd_children} of them odd (archived, empty, moved, hanging, protected, without a pipeline ...)."""
POINTS = (
    "A good release: {clean_merged} of {clean} clean children ({share}) merged without a click.",
    "`apply` was killed {kills} times on the way, and then its folder was lost: no child got two requests.",
    "A bad release reached {bad_release_reached} children, and was merged in none.",
    "Taken back from an empty folder: {taken_back} of {up_to_date} children are, file by file, what they were.",
)


def fleet_hosts() -> str:
    """Return how a fleet with odd children fared."""
    found = load("benchmarks/results/fleet-hosts.json")
    words = found | {"machine": machine_of(found["machine"]), "share": percent(found["clean_merged_share"])}
    points = [indent(fill(point.format_map(words), WIDTH - 2), "  ").replace("  ", "- ", 1) for point in POINTS]
    return "\n".join([fill(FLEET.format_map(words), WIDTH), "", *points])
