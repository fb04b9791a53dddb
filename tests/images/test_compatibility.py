"""Which packages fit which image: the result is of today's locks, and each judgement is what its page says."""

from __future__ import annotations

import json

from image_tools.catalog import FOLDER, live_rows, lock_path, sha256_of

from .conftest import CATALOG


def test_the_page_is_of_the_locks_and_of_the_list_and_every_no_has_its_reason() -> None:
    """A company may leave its own rows out."""
    for row in live_rows(CATALOG):
        file = FOLDER / row["name"] / "compatibility.json"
        if "pinned_minor" not in row or file.exists():
            result = json.loads(file.read_text())
            assert result["lock"] == sha256_of(lock_path(row["name"])), f"run make compatibility IMAGE={row['name']}"
            assert list(result["packages"]) == [one["name"] for one in CATALOG["compatibility"]], file
            assert all(fit["version"] or fit["why"] for fit in result["packages"].values()), (
                f"{file}: a no without a reason"
            )
