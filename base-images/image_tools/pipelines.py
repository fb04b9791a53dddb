"""Write the rows of the catalogue into the pipelines of this repository, which cannot read them from a file."""

from __future__ import annotations

import argparse
import re
from typing import Any

from .catalog import ROOT, live_rows

GITLAB = """build {row}: {{extends: .build, needs: [check], variables: &{row} {{ROW: {row}}}}}
smoke {row}: {{extends: .smoke, needs: [build {row}], variables: *{row}}}
promote {row}: {{extends: .promote, needs: [build {row}, smoke {row}], variables: *{row}}}
"""


def written(catalog: dict[str, Any]) -> dict[str, str]:
    """Return the text of each pipeline with the rows that are still built, by its path from the repository's root.

    One row a line: upstream's new rows come first and a company's last, so that the two merge.
    """
    rows = [row["name"] for row in live_rows(catalog)]
    jobs = "".join(GITLAB.format(row=row) for row in rows)
    values, listed = ",".join(f"\n{' ' * 28}{row!r}" for row in rows), "".join(f"          - {row}\n" for row in rows)
    places = {
        "Jenkinsfile": (r"(?<=name 'ROW'\n)( *values\()[^)]*?(?=\n *\))", rf"\g<1>{values}"),
        ".github/workflows/images.yml": (r"(?m)(?<=^        row:\n)(^ +- .*\n)+", listed),
        ".gitlab-ci.yml": (r"(?m)(^(build|smoke|promote) [\w-]+: .*\n)+", jobs),
    }
    return {
        path: re.sub(found, text, (ROOT / path).read_text(encoding="utf-8")) for path, (found, text) in places.items()
    }


def write(catalog: dict[str, Any], _: argparse.Namespace) -> None:
    """Write the pipelines and name those that changed."""
    for path, text in written(catalog).items():
        if text != (ROOT / path).read_text(encoding="utf-8"):
            (ROOT / path).write_text(text, encoding="utf-8")
            print(f"{path}: has the rows of the catalogue now")
