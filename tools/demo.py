"""Show one project type at work: render it, set it up, test it, run it with real input. Run by `make demo`."""

from __future__ import annotations

import argparse
import json
import os
import pydoc_data.topics
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from contextlib import suppress
from pathlib import Path

import with_runtime  # noqa: F401

# isort: split
from copier import run_copy
from family import frameworks, types

ROOT = Path(__file__).resolve().parent.parent
DEMO = Path(os.environ.get("DEMO_FOLDER", ROOT / "build" / "demo"))


class DemoError(Exception):
    """A step failed; the message says which and how to see more."""


def step(title: str, *command: str, quiet: bool = True) -> str:
    """Run `command` in the demo, say how long it took and return its output. Raises DemoError when it fails."""
    print(f"-- {title}: {' '.join(command)}", flush=True)
    start = time.monotonic()
    done = subprocess.run(command, cwd=DEMO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode or not quiet:
        print(done.stdout.rstrip())
    if done.returncode:
        raise DemoError(f"{title} failed with exit code {done.returncode}; go on in {DEMO} with: {' '.join(command)}")
    closing = [line for line in done.stdout.splitlines() if line.startswith("=") and "passed" in line]
    print(f"   {closing[-1].strip('= ') if closing else 'done'} ({time.monotonic() - start:.1f} s)", flush=True)
    return done.stdout


def render(project_type: str, framework: str) -> None:
    """Render the type into build/demo with default answers for all other questions."""
    print(f"-- render: a {project_type} on {framework} into {os.path.relpath(DEMO)}", flush=True)
    shutil.rmtree(DEMO, ignore_errors=True)
    answers = {"project_name": "demo", "project_type": project_type, "framework": framework}
    os.environ["COPIER_SETTINGS_PATH"] = os.devnull  # a person's own defaults are not those of the demo
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Copier's, about a shallow clone and the settings
        run_copy(str(ROOT), DEMO, data=answers, defaults=True, quiet=True, vcs_ref="HEAD")


def write_input() -> Path:
    """Write lines of Python's own language reference as plain text and as JSON Lines; return their folder."""
    folder = DEMO.parent / "demo-input"
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(pydoc_data.topics.topics.values())
    lines = [line.strip() for line in text.splitlines() if len(line.split()) > 3]
    (folder / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with (folder / "lines.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": number, "text": line}) + "\n" for number, line in enumerate(lines))
    print(f"-- input: {len(lines)} lines of Python's language reference in {os.path.relpath(folder)}")
    return folder


def show_service() -> None:
    """Start the service, ask for a prediction, stop it. Raises DemoError when it does not start."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    print(f"-- serve: scripts/run on port {port}", flush=True)
    url, log = f"http://127.0.0.1:{port}", DEMO / "build" / "service.log"
    with log.open("wb") as output:
        environment = {**os.environ, "PORT": str(port)}
        server = subprocess.Popen(["scripts/run"], cwd=DEMO, env=environment, stdout=output, stderr=output)
    try:
        while server.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{url}/readyz"):
                break
            time.sleep(0.1)
        else:
            raise DemoError(f"the service ended with exit code {server.returncode}: see {log}")
        texts = ["Rain and strong wind are in the forecast for tomorrow", "The class has two functions and a loop"]
        body = json.dumps({"instances": texts})
        request = urllib.request.Request(f"{url}/predict", body.encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            print(f"   POST /predict {body}\n   {answer.read().decode()}")
    finally:
        server.terminate()
        server.wait(30)


def show_batch() -> None:
    """Run the job over the real lines and show some of its result."""
    folder = write_input()
    step("run", "scripts/run", "--input", str(folder / "lines.jsonl"), "--output", "build/result")
    program = (
        "import pyarrow.dataset as d, collections\n"
        "t = d.dataset('build/result', format='parquet', exclude_invalid_files=True).to_table()\n"
        "print(t.num_rows, 'rows with the columns', ', '.join(t.column_names))\n"
        "print(dict(collections.Counter(t['label'].to_pylist()).most_common()))\n"
        "for r in t.slice(0, 5).to_pylist(): print(f\"{r['score']:.2f} {r['label']:10} {r['text'][:70]}\")"
    )
    step("result", ".venv/bin/python", "-c", program, quiet=False)


def show_library() -> None:
    """Search the real lines."""
    folder = write_input()
    step("search", "scripts/run", "loop over the items of a list", str(folder / "lines.txt"), quiet=False)


# What of a type there is to see beyond its tests.
SHOWS = {"service": show_service, "batch": show_batch, "library": show_library}


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--type", choices=list(types()), default=next(iter(types())))
    parser.add_argument("--framework", choices=list(frameworks()), default=next(iter(frameworks())))
    parser.add_argument("--framework-build", help="another build of the framework, for example torch==2.13.0")
    parser.add_argument("--started", type=int, default=int(time.time()), help="when make began (seconds)")
    options = parser.parse_args()
    try:
        render(options.type, options.framework)
        build = ["--framework", options.framework_build] if options.framework_build else []
        step("set up", "scripts/setup", *build)
        step("test", "scripts/test")
        step("smoke test", "scripts/smoke")
        if options.type in SHOWS:
            SHOWS[options.type]()
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: stopped by Ctrl-C; the same command begins anew", file=sys.stderr)
        return 130
    print(f"\nFinished in {time.time() - options.started:.0f} s. Next:\n\n  cd {os.path.relpath(DEMO)}")
    print("".join(f"  {command}\n" for command in types()[options.type]["look"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
