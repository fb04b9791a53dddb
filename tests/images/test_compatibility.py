"""Which packages fit which image: the result is of today's locks, and each judgement is what its page says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from image_tools.catalog import FOLDER, find_row, live_rows, lock_path, read_lock, sha256_of
from image_tools.plan import write_plan

from benchmarks.images import compatibility
from benchmarks.images.compatibility import Fit
from benchmarks.images.elf_needs import needed

from .conftest import CATALOG

NCCL = next(f"{pin.name} {pin.version}" for pin in read_lock(lock_path("plain-cu13")).values() if "nccl" in pin.name)
RESULT = json.loads((FOLDER / "compatibility.json").read_text())


def test_the_page_is_of_the_locks_and_of_the_list() -> None:
    rows = [row["name"] for row in live_rows(CATALOG)]
    locks = {name: RESULT["locks"].get(name) for name in rows}
    assert locks == {name: sha256_of(lock_path(name)) for name in rows}, "run make compatibility"
    names = [one["name"] for one in CATALOG["compatibility"]]
    assert list(RESULT["packages"]) == names, "run make compatibility"
    assert all(found.keys() >= set(rows) for found in RESULT["packages"].values()), "run make compatibility"


def test_every_no_has_its_reason() -> None:
    for name, found in RESULT["packages"].items():
        for row, fit in found.items():
            assert fit["version"] or fit["why"], f"base-images/compatibility.json: {name} on {row}: no, and no reason"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "error: Because vllm==0.32.0 depends on torch==2.13.0 and torch==2.15.0, we can conclude that vllm==0.32.0 "
            "cannot be used.",
            "wants torch==2.13.0; the image has torch==2.15.0",
        ),
        ("Because a==1 depends on b>=3 and only b<3 is available", "wants b>=3"),
        ("Something that uv says in another way", "no version fits"),
    ],
)
def test_the_reason_is_taken_out_of_the_resolvers_words(text: str, expected: str) -> None:
    assert compatibility.reason(text, "vllm") == expected


def test_the_cuda_of_a_package_is_read_out_of_its_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a name lies across two pieces that are read; texts and libraries with other numbers say nothing."""
    monkeypatch.setattr(compatibility, "CHUNK", 80)
    names = b"x" * 68, b"libcudart.so.12", b"libcublasLt.so.13", b"libcufft.so.11"
    (tmp_path / "readme.txt").write_bytes(b"libcudart.so.11")
    (tmp_path / "p").mkdir()
    assert compatibility.named(tmp_path) == set()
    (tmp_path / "p" / "_native.cpython-313.so").write_bytes(b"\x7fELF" + b"\0".join(names) + bytes(100))
    assert compatibility.named(tmp_path) == {12, 13}
    assert compatibility.linked(tmp_path) == set()


@pytest.mark.needs("gcc")
def test_what_a_library_is_linked_to_is_read_out_of_its_dynamic_section(tmp_path: Path) -> None:
    """By a library that gcc links; the text in it names another CUDA and counts for nothing."""
    (tmp_path / "a.c").write_text('const char *text = "libcublasLt.so.12";\nint a(void) { return 1; }\n')
    for name, options in (("libcublasLt.so.13", ["-Wl,-soname,libcublasLt.so.13"]), ("b.so", ["-Wl,--no-as-needed"])):
        linked = [str(tmp_path / "libcublasLt.so.13")] if name == "b.so" else []
        command = ["gcc", "-shared", "-fPIC", "-o", str(tmp_path / name), str(tmp_path / "a.c"), *options, *linked]
        subprocess.run(command, check=True)
    assert b"libcublasLt.so.13" in needed(tmp_path / "b.so")
    assert compatibility.linked(tmp_path) == {13}


@pytest.fixture
def fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that fits a package on plain-cu13 by what an index is made to say."""
    row = find_row(CATALOG, "plain-cu13")
    write_plan(CATALOG, row, tmp_path / "plan")
    facts = tmp_path / "plan" / "facts"
    compatibility.newest.cache_clear()
    compatibility.brings.cache_clear()

    older = [""]

    def fit_on_cu13(
        name: str, fits: dict[str, str], latest: str, free: dict[str, str], cuda: set[int], why: str = ""
    ) -> Fit:
        def resolve(requirement: str, _: str, constraints: Path | None = None, *options: str) -> Any:
            if "--no-deps" in options:
                return {name: latest}, ""
            if "<" in requirement:
                return ({name: older[0]} if requirement == f"{name}<2.1" else {}), ""
            return ({}, why) if "==" in requirement else (fits if constraints else free, "")

        monkeypatch.setattr(compatibility, "resolve", resolve)
        monkeypatch.setattr(compatibility, "cuda_of", lambda *_: frozenset(cuda))
        return compatibility.fit(name, "", row, compatibility.read_image(facts), facts / "constraints.txt", "3.13")

    fit_on_cu13.older = older
    return fit_on_cu13


def test_an_older_version_that_needs_less_is_found(fit: Any) -> None:
    """As XGBoost, whose newest version needs NCCL for another CUDA."""
    brought = {"p": "2.1.3", "nvidia-nccl-cu12": "1"}
    fit.older[0] = "2.0.9"
    why = f"brings nvidia-nccl-cu12 1: a second copy of {NCCL}"
    assert fit("p", brought, "2.1.3", brought, {13}) == Fit("2.0.9", f"2.1.3 {why}")
    fit.older[0] = "nvidia"
    assert fit("q", {"q": "3.1", "nvidia-nccl-cu12": "1"}, "3.1", brought, {13}) == Fit("", why)


def test_a_package_is_judged_as_base_install_would(fit: Any) -> None:
    assert fit("p", {"p": "2"}, "2", {"p": "2"}, {13}) == Fit("2", "")
    assert fit("p", {"p": "2"}, "2", {"p": "2"}, set()) == Fit("2", "")
    assert fit("p", {"p": "2"}, "2", {"p": "2"}, {12}).why == "is built for CUDA 12; the image has CUDA 13"
    brought = {"p": "2", "nvidia-nccl-cu12": "1"}
    assert fit("p", brought, "2", brought, {13}) == Fit("", f"brings nvidia-nccl-cu12 1: a second copy of {NCCL}")
    brought = {"p": "2", "nvidia-cufile-of-tomorrow": "1"}
    assert fit("p", brought, "2", brought, {13}) == Fit("2", "")


def test_a_framework_that_the_image_has_not_is_the_reason(fit: Any) -> None:
    assert fit("q", {}, "2", {"q": "2", "torch": "2.15.0"}, set()) == Fit(
        "", "needs torch, which the image does not contain"
    )


def test_an_older_version_says_why_not_the_newest(fit: Any) -> None:
    why = "Because r==2 depends on numpy>=9 and numpy==2.4.6, we can conclude that"
    expected = "2 wants numpy>=9; the image has numpy==2.4.6"
    assert fit("r", {"r": "1"}, "2", {"r": "2"}, set(), why) == Fit("1", expected)
    assert fit("r", {}, "2", {"r": "2"}, set(), why) == Fit("", expected)


def test_one_row_again_leaves_the_others_as_they_are() -> None:
    name, row = "vllm", "torch-cu12"
    now = {"locks": {row: "new"}, "python": "3.13", "packages": {name: {row: {"version": "9", "why": ""}}}}
    both = compatibility.merged(RESULT, now)
    assert both["locks"] == RESULT["locks"] | {row: "new"}
    assert both["packages"] == {name: RESULT["packages"][name] | now["packages"][name]}
    assert list(both["packages"][name]) == [one["name"] for one in live_rows(CATALOG)]
