"""Cut out of GitHub's published OpenAPI description what the fleet tool uses, into github.json beside this file.

The description comes from the npm package that its publishers make of it; `make host-apis` runs this.
"""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PACKAGE, VERSION = "@octokit/openapi", "23.0.2"
INSIDE = "package/generated/api.github.com.json"
USED = {
    "/orgs/{org}": ("get",),
    "/orgs/{org}/repos": ("get",),
    "/repos/{owner}/{repo}/commits/{ref}": ("get",),
    "/repos/{owner}/{repo}/commits/{ref}/check-runs": ("get",),
    "/repos/{owner}/{repo}/commits/{ref}/status": ("get",),
    "/repos/{owner}/{repo}/contents/{path}": ("get",),
    "/repos/{owner}/{repo}/issues/{issue_number}/comments": ("post",),
    "/repos/{owner}/{repo}/pulls": ("get", "post"),
    "/repos/{owner}/{repo}/pulls/{pull_number}": ("get", "patch"),
    "/users/{username}": ("get",),
    "/users/{username}/repos": ("get",),
}
NESTED = {"head", "base", "statuses", "check_runs"}  # fields kept with their own fields; of others the type alone
READ = {  # fields that an answer may lack and the tool reads
    "archived", "body", "content", "draft", "encoding",
}  # fmt: skip
KEPT = ("type", "enum", "minLength", "maxLength", "minimum", "maximum")


class Cutter:
    """One description and what is taken of it."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.whole = whole

    def found(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return a part of the description, where it names another one that one."""
        while "$ref" in part:
            names = part["$ref"].removeprefix("#/").split("/")
            part = self.whole
            for name in names:
                part = part[name]
        return part

    def schema(self, given: dict[str, Any], wanted: set[str] | None = None, fields: bool = True) -> dict[str, Any]:
        """Return types and choices of a schema as JSON Schema says them, with its fields: all, or needed and wanted."""
        part = self.found(given)
        cut: dict[str, Any] = {key: part[key] for key in KEPT if key in part}
        if part.get("format") == "date-time":
            cut["format"] = "date-time"
        for key in ("allOf", "anyOf", "oneOf"):
            if key in part:
                cut[key] = [self.schema(one, wanted, fields) for one in part[key]]
        if "items" in part:
            cut["items"] = self.schema(part["items"], wanted, fields)
        if part.get("properties") and fields:
            needed = set(part.get("required", []))
            kept = set(part["properties"]) if wanted is None else needed | wanted
            cut["properties"] = {
                name: self.schema(one, wanted, wanted is None or name in NESTED)
                for name, one in part["properties"].items()
                if name in kept
            }
            cut |= {"required": sorted(needed)} if needed and wanted is None else {}
        if not part.get("nullable"):
            return cut
        if "type" not in cut:
            return {"anyOf": [cut, {"type": "null"}]}
        return cut | {"type": [cut["type"], "null"]} | ({"enum": [*cut["enum"], None]} if "enum" in cut else {})

    def content(self, part: dict[str, Any], wanted: set[str] | None = None) -> dict[str, Any] | None:
        """Return the schema of a body of JSON; None where there is none."""
        media = self.found(part).get("content", {})
        return self.schema(media["application/json"]["schema"], wanted) if "application/json" in media else None

    def operation(self, path: str, method: str) -> dict[str, Any]:
        """Return parameters, body and answers of one operation; of refusals the code alone."""
        item = self.whole["paths"][path]
        told = item[method]
        named = [self.found(one) for one in (*item.get("parameters", []), *told.get("parameters", []))]
        body = self.found(told.get("requestBody", {}))
        return {
            "query": {one["name"]: self.schema(one["schema"]) for one in named if one["in"] == "query"},
            "body": self.content(body),
            "body_required": bool(body.get("required")),
            "answers": {
                code: self.content(one, READ) if code.startswith("2") else None
                for code, one in told["responses"].items()
            },
        }


def description() -> dict[str, Any]:
    """Return the description as its publishers packed it."""
    with TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
        name = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]
        with tarfile.open(Path(folder, name)) as archive:
            member = archive.extractfile(INSIDE)
            assert member is not None, f"{PACKAGE} {VERSION} holds no {INSIDE}"
            whole: dict[str, Any] = json.load(member)
            return whole


def packed(made: dict[str, Any]) -> str:
    """Return the cut as JSON with a line for each operation, so that a newer description is a readable difference."""
    lines = [f"  {json.dumps(name)}: {json.dumps(told, sort_keys=True)}" for name, told in made["operations"].items()]
    head = "".join(f" {json.dumps(key)}: {json.dumps(made[key])},\n" for key in made if key != "operations")
    return "{\n" + head + ' "operations": {\n' + ",\n".join(lines) + "\n }\n}"


def main() -> None:
    """Write github.json."""
    cutter = Cutter(description())
    operations = {
        f"{method.upper()} {path}": cutter.operation(path, method)
        for path, methods in USED.items()
        for method in methods
    }
    made = {"source": f"{PACKAGE} {VERSION}, {INSIDE}", "license": "MIT", "operations": operations}
    place = Path(__file__).with_name("github.json")
    place.write_text(packed(made) + "\n", encoding="utf-8")
    print(f"{place.name}: {len(operations)} operations, {place.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
