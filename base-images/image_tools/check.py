"""Prove that no row of the catalogue contradicts its lock. What only the wheels know is proved in tests/images."""

import argparse
import re
import sys
from datetime import UTC, date, datetime
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from .build_plan import layer_of
from .ca_certificates import check_files
from .catalog import (
    COMPANY,
    FOLDER,
    ImageError,
    Pin,
    chosen_rows,
    days_left,
    find_row,
    installed_pins,
    lock_path,
    matches,
    read_catalog,
    read_lock,
)


def pinned(pins: dict[str, Pin], *patterns: str) -> str:
    """Return the version of the one package that matches any of the regular expressions, or ""."""
    versions = {pin.version for name, pin in pins.items() if any(re.fullmatch(pattern, name) for pattern in patterns)}
    return versions.pop() if len(versions) == 1 else ""


def row_problems(catalog: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """Return every contradiction between a row, its lock and the catalogue's own rules; none when all is well."""
    frameworks = dict.fromkeys(one["image_framework"] for one in catalog["frameworks"])
    found = []
    if row["framework"] not in frameworks:
        known = ", ".join(frameworks)
        found.append(f"framework is {row['framework']!r}, expected one of {known}, the rows in frameworks")
    for platform, differs in row["platforms"].items():
        pins, there = installed_pins(catalog, row["name"], platform), row | (differs or {})
        problems = [
            *driver_problems(catalog, there),
            *version_problems(there, pins),
            *line_problems(catalog, there, pins),
        ]
        found += [one for one in problems if one not in found]
    return found


def version_problems(row: dict[str, Any], pins: dict[str, Pin]) -> list[str]:
    """Return where the row names another version than the lock pins."""
    framework, cuda = row["framework"], pinned(pins, r"nvidia-cuda-runtime(-cu\d+)?")
    expected = {
        "cudnn": (str(row["cudnn"]), pinned(pins, r"nvidia-cudnn-cu\d+")),
        "nccl": (str(row["nccl"]), pinned(pins, r"nvidia-nccl-cu\d+")),
        "cuda": (str(row["cuda"]), ".".join(cuda.split(".")[:2])),
        "framework_version": (
            str(row["framework_version"]),
            pins[framework].version if framework in pins else "",
        ),
    }
    return [
        f"{key} says {said or 'nothing'}, requirements.lock has {locked or 'none'}"
        for key, (said, locked) in expected.items()
        if said != locked
    ]


def driver_problems(catalog: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """Return where the driver branches are not those of the row's CUDA."""
    known = catalog["cuda_drivers"].get(str(row["cuda"]))
    if known is None:
        return [f"cuda {row['cuda']} is not in cuda_drivers; add its driver branches"]
    return [
        f"driver_{key} says {row[f'driver_{key}']}, cuda_drivers has {known[key]} for CUDA {row['cuda']}"
        for key in ("min", "full")
        if row[f"driver_{key}"] != known[key]
    ]


def line_problems(catalog: dict[str, Any], row: dict[str, Any], pins: dict[str, Pin]) -> list[str]:
    """Return packages of another CUDA major, packages of no layer, and requirements that the lock does not meet."""
    major = str(row["cuda"]).split(".")[0]
    wrong = [name for name in pins if (named := re.search(r"-cu(\d\d)$", name)) and named[1] != major]
    found = [f"holds {name}, which is for another CUDA than {row['cuda']}" for name in wrong]
    for name in pins:
        try:
            layer_of(catalog, name)
        except ImageError as error:
            found.append(str(error))
    return found + request_problems(row["name"], pins)


def request_problems(name: str, pins: dict[str, Pin]) -> list[str]:
    """Return lines of requirements.in that the lock does not satisfy."""
    found = []
    for line in (FOLDER / name / "requirements.in").read_text().splitlines():
        if text := line.split("#")[0].strip():
            requirement = Requirement(text)
            pin = pins.get(canonicalize_name(requirement.name))
            if pin is None or Version(pin.version) not in requirement.specifier:
                found.append(f"requirements.in asks {text}, requirements.lock has {pin.version if pin else 'none'}")
    return found


def choice_problems(catalog: dict[str, Any]) -> list[str]:
    """Return rows for the same answers: framework, driver, and what a row of a company's own answers to."""
    found: list[str] = []
    taken: dict[tuple[Any, Any, str], str] = {}
    for row in catalog["images"]:
        if row.get("state") == "retired":
            continue
        answers = (row.get("framework"), row.get("driver_min"), str(row.get("pinned_minor", "")))
        if answers in taken:
            found.append(f"{row['name']}: {taken[answers]} is for {answers[0]} and driver {answers[1]} too: retire one")
        taken[answers] = row["name"]
    return found


def end_problems(row: dict[str, Any], today: date) -> list[str]:
    """Return that the row's time is over, where it is: nobody makes fixes any more, so nobody may start on it."""
    if row["state"] == "retired" or days_left(row, today) >= 0:
        return []
    return [f"end_of_life {row['end_of_life']} has passed: set state: retired, or move the date"]


def end_warnings(catalog: dict[str, Any], rows: list[dict[str, Any]], today: date) -> list[str]:
    """Return a line for each row whose fixes end soon."""
    return [
        f"{row['name']}: support ends on {row['end_of_life']} ({left} days left); then no new repository can use it"
        for row in rows
        if row["state"] != "retired" and 0 <= (left := days_left(row, today)) <= catalog["end_of_life_warning_days"]
    ]


def check_rows(catalog: dict[str, Any], rows: list[dict[str, Any]], today: date | None = None) -> None:
    """Raise ImageError with each contradiction in the rows or a wrong file of ca/; print on stderr which end soon."""
    check_files()
    today = today or datetime.now(UTC).date()
    names = [row["name"] for row in catalog["images"]]
    found = [f"{row['name']}: {problem}" for row in rows for problem in row_problems(catalog, row)]
    found += [
        f"{name}: appears twice in the catalogue" for name in sorted({name for name in names if names.count(name) > 1})
    ]
    found += choice_problems(catalog)
    if not found:
        found += [f"{row['name']}: {problem}" for row in rows for problem in end_problems(row, today)]
    if found:
        raise ImageError("base-images/catalog.yml contradicts itself or the locks: " + "; ".join(found))
    for line in end_warnings(catalog, rows, today):
        print(f"warning: {line}", file=sys.stderr)


def unread_licences(rows: list[dict[str, Any]]) -> list[str]:
    """Return the packages of the rows that no list in licences.yml names."""
    lists = yaml.safe_load((FOLDER / "licences.yml").read_text())
    named = [package for one in lists for package in one["packages"]]
    return sorted({name for row in rows for name in read_lock(lock_path(row["name"])) if not matches(name, named)})


def check(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Check the chosen rows, a retired one only when it is named."""
    read_catalog(COMPANY)
    rows = [find_row(catalog, arguments.image)] if arguments.image else chosen_rows(catalog, "")
    check_rows(catalog, rows)
    if unread := unread_licences(rows):
        raise ImageError(
            f"base-images/licences.yml: no licence of {', '.join(unread)}: add what the wheel declares, "
            "as an entry with licence, terms and packages"
        )
    print(f"checked {len(rows)} rows against their locks: all agree")
