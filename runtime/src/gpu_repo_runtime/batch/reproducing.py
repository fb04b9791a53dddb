"""Whether this checkout and this input would give the same result as one that is there, and if not, what differs."""

import argparse
import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import device
from .addresses import is_masked
from .contents import Checksums, version
from .exits import DONE, BadConfiguration
from .inputs import InputFile, find_files
from .plan import NAME as PLAN
from .plan import code_fingerprint
from .provenance import image, locks, packages, versions, weights
from .publishing import MANIFEST, changed_files
from .settings import RunOptions
from .store import SUCCESS, Store, open_store

DIFFERENT = 1
SHOWN = 5


def check_job(package: str, output: str, given: Sequence[str], parsed: Callable[[Sequence[str]], RunOptions]) -> int:
    """Compare with a result, print what differs and return 0, or 1 where something does. Raises JobError.

    given: the input, that of the result's command where there is none. parsed: reads the options of a command.
    """
    store = open_store(output, make=False)
    if store.read(SUCCESS) is None:
        raise BadConfiguration(f"there is no {SUCCESS} in the output: only a complete result can be compared")
    story, plan, manifest = (_read(store, name) for name in ("_provenance.json", PLAN, MANIFEST))
    options = _options(story, parsed)
    files = find_files(given or _located(options.input, story), options.format, output, options.dialect)
    told: dict[str, Callable[[], Any]] = {
        "the code": lambda: code_fingerprint(package),
        "locks": lambda: locks(package),
        "weights": lambda: weights(package),
        "versions": versions,
        "packages": packages,
        "image": image,
    }
    before = {**story, "the code": (story.get("code") or {}).get("sha256")}
    differences = [line for name, now in told.items() for line in _differences(name, before.get(name), now())]
    differences += _devices(story.get("device") or {})
    differences += _inputs(plan, manifest, files)
    differences += [f"the result: {one}" for one in [*changed_files(store), *_counts(manifest)]]
    for line in differences:
        print(f"differs: {line}")
    print(f"{output} would come out otherwise" if differences else f"{output} would come out the same")
    return DIFFERENT if differences else DONE


def _read(store: Store, name: str) -> dict[str, Any]:
    content = store.read(name)
    if content is None:
        raise BadConfiguration(f"there is no {name} in the output: only a complete result can be compared")
    try:
        return dict(json.loads(content))
    except (ValueError, TypeError):
        raise BadConfiguration(f"{name} of the output is cut or no JSON") from None


def _options(story: dict[str, Any], parsed: Callable[[Sequence[str]], RunOptions]) -> RunOptions:
    words = shlex.split(story.get("command") or "")
    try:
        return parsed(words[words.index("run") :])
    except (ValueError, argparse.ArgumentError, SystemExit):
        raise BadConfiguration("_provenance.json holds no command of this version of the job") from None


def _located(inputs: Sequence[str], story: dict[str, Any]) -> list[str]:
    """Return the input as it is found from anywhere: relative paths are of the folder of the command."""
    folder = Path(story.get("folder") or ".")
    hidden = next(filter(is_masked, inputs), "")
    if hidden:
        raise BadConfiguration(f"{hidden} was written down without its password: say with --input where the input is")
    return [one if "://" in one else str(folder / one) for one in inputs]


def _differences(name: str, before: Any, now: Any) -> list[str]:
    """Say in which keys two objects differ, or that two values do."""
    if not isinstance(before, dict) or not isinstance(now, dict):
        return [] if before == now else [f"{name} was {_short(before)}, now {_short(now)}"]
    keys = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    found = [f"{name}: {key} was {_short(before.get(key))}, now {_short(now.get(key))}" for key in keys[:SHOWN]]
    return found + ([f"{name}: {len(keys) - SHOWN} more"] if len(keys) > SHOWN else [])


def _short(value: Any) -> str:
    text = "not there" if value is None else value if isinstance(value, str) else json.dumps(value)
    return f"{text[:12]}..." if len(text) > 40 else text


def _devices(before: dict[str, Any]) -> list[str]:
    now = device.describe(device.choose("cpu" if before.get("device") == "cpu" else "auto"))
    return _differences("device", before.get("name", before.get("device")), now.get("name", now.get("device")))


def _parts(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a manifest, which may be none of ours any more."""
    return [part for part in manifest.get("parts") or [] if isinstance(part, dict)]


def _counts(manifest: dict[str, Any]) -> list[str]:
    """Say which counts of a manifest are not those of its parts together."""
    sums = {key: sum(part.get(key, 0) for part in _parts(manifest)) for key in ("rows", "written", "bad")}
    wrong = [(key, count) for key, count in sums.items() if manifest.get(key) != count]
    found = [f"its manifest says {manifest.get(key)} {key}, and its parts {count}" for key, count in wrong]
    keys = ("written", "bad", "blank")
    strange = [part for part in _parts(manifest) if part.get("rows") != sum(part.get(key, 0) for key in keys)]
    return found + [f"part {part.get('index')} of {part.get('file')} has other rows than it counts" for part in strange]


def _inputs(plan: dict[str, Any], manifest: dict[str, Any], files: list[InputFile]) -> list[str]:
    """Compare files by their content where it is known, else by size and version or time."""
    before = {file["name"]: file for file in plan.get("files", [])}
    now = {file.name: file for file in files}
    versions_read = {part["file"]: part["version"] for part in _parts(manifest) if part.get("version")}
    for part in _parts(manifest):
        versions_read |= part.get("versions", {})
    with Checksums([file for file in files if file.name in before]) as checksums:
        sums = checksums()
    found = [f"the input has {name} no more" for name in sorted(before.keys() - now.keys())]
    found += [f"the input has {name}, which is new" for name in sorted(now.keys() - before.keys())]
    for name in sorted(before.keys() & now.keys()):
        was, file = before[name], now[name]
        if was["size"] != file.size:
            found.append(f"{name} had {was['size']} bytes, now {file.size}")
        elif was.get("sha256") and name in sums:
            found += [f"{name} has another content"] if was["sha256"] != sums[name] else []
        elif name in versions_read:
            found += [f"{name} is another version"] if versions_read[name] != version(file) else []
        elif was["modified"] != file.modified:
            found.append(f"{name} has another time, and its content is not known")
    return found
