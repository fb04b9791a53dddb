"""What every result file holds in the same way: the machine, and a line for each row of figures."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

WIDTH = 340  # of a line of several figures


def machine(packages: Iterable[str] = (), **more: object) -> dict[str, object]:
    """Describe the machine without naming it, with the versions of packages."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    versions = {name: metadata.version(name) for name in packages}
    return {
        "cpu": next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.machine()),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    } | ({"versions": versions} if versions else {}) | more  # fmt: skip


def as_json(value: object, indent: str = "") -> str:
    """Return JSON with a line for each row of figures: a review shows which of them changed."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or (indent and len(line) <= WIDTH):
        return line
    inner = indent + " "
    if isinstance(value, list):
        return f"[\n{inner}" + f",\n{inner}".join(as_json(part, inner) for part in value) + f"\n{indent}]"
    lines: list[str] = []
    joins = False  # single values share a line
    for name, part in value.items():
        said, single = f"{json.dumps(name)}: {as_json(part, inner)}", not isinstance(part, dict | list)
        if joins and single and len(lines[-1]) + len(said) < WIDTH:
            lines[-1] += f", {said}"
        else:
            lines.append(said)
        joins = single
    return f"{{\n{inner}" + f",\n{inner}".join(lines) + f"\n{indent}}}"


def write_result(file: Path, result: object) -> None:
    """Write a result file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(as_json(result) + "\n", encoding="utf-8")
