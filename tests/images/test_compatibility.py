"""Which packages fit which image: the result is of today's locks, and each judgement is what its page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from base_install.fit import read_image
from image_tools.build_plan import write_plan
from image_tools.catalog import FOLDER, find_row, live_rows, lock_path, read_lock, sha256_of

from benchmarks.images.compatibility import Fit, fit

from .conftest import CATALOG

NCCL = next(f"{pin.name} {pin.version}" for pin in read_lock(lock_path("plain-cu13")).values() if "nccl" in pin.name)
SECOND = f"nvidia-nccl-cu12 1: a second copy of {NCCL}"


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


@pytest.mark.parametrize(
    ("versions", "cuda", "expected"),
    [
        ([{"p": "2"}], {"13"}, Fit("2", "")),
        ([{"p": "2", "nvidia-cufile-of-tomorrow": "1"}], {"12", "13"}, Fit("2", "")),
        ([{"p": "2"}], {"12"}, Fit("", "2 is built for CUDA 12; the image has CUDA 13")),
        ([{"p": "2.1.3", "nvidia-nccl-cu12": "1"}, {"p": "2.0.9"}], {"13"}, Fit("2.0.9", f"2.1.3 {SECOND}")),
        ([{"p": "2", "torch": "2.15.0"}], set(), Fit("", "2 needs torch, which the image does not contain")),
        ([], set(), Fit("", "no version with a wheel fits the image's versions")),
    ],
    ids=["fits", "new parts", "another CUDA", "an older one", "a framework", "none"],
)
def test_a_package_is_judged_as_base_install_would(
    versions: list[dict[str, str]], cuda: set[str], expected: Fit, tmp_path: Path
) -> None:
    """The newest version that fits; an older one where only that does, as of XGBoost."""
    write_plan(CATALOG, find_row(CATALOG, "plain-cu13"), tmp_path / "plan")
    image, left = read_image(tmp_path / "plan" / "facts"), list(versions)

    def in_image(requirement: str) -> dict[str, str]:
        assert ("<" in requirement) == (len(left) < len(versions)), "each try asks for an older series"
        return left.pop(0) if left else {}

    newest = versions[0] if versions else {}
    assert fit("p", image, lambda _: newest, in_image, lambda *_: frozenset(cuda)) == expected
