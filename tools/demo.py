"""Show one project type at work: render it, set it up, test it, run it with real input. Run by `make demo`."""

from __future__ import annotations

import argparse
import json
import os
import pydoc_data.topics
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from pathlib import Path
from typing import Any

import with_runtime  # noqa: F401

# isort: split
from copier import run_copy
from copier.errors import MissingSettingsWarning, ShallowCloneWarning
from family import frameworks, types
from git_calls import own_settings_aside

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
    closing = [
        line for line in done.stdout.splitlines() if line.startswith("=") and ("passed" in line or "failed" in line)
    ]
    print(f"   {closing[-1].strip('= ') if closing else 'done'} ({time.monotonic() - start:.1f} s)", flush=True)
    return done.stdout


def render(project_type: str, framework: str) -> None:
    """Render the type into build/demo with default answers for all other questions."""
    print(f"-- render: a {project_type} on {framework} into {os.path.relpath(DEMO)}", flush=True)
    shutil.rmtree(DEMO, ignore_errors=True)
    answers = {"project_name": "demo", "project_type": project_type, "framework": framework}
    with own_settings_aside(), warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingSettingsWarning)
        warnings.simplefilter("ignore", ShallowCloneWarning)
        run_copy(str(ROOT), DEMO, data=answers, defaults=True, quiet=True, vcs_ref="HEAD")


def real_lines() -> list[str]:
    """Return the lines of Python's own language reference, which every Python carries: thousands of real lines."""
    text = "\n".join(pydoc_data.topics.topics.values())
    return [line.strip() for line in text.splitlines() if len(line.split()) > 3]


def write_input() -> Path:
    """Write the real lines as plain text and as JSON Lines; return their folder."""
    folder = DEMO.parent / "demo-input"
    folder.mkdir(parents=True, exist_ok=True)
    lines = real_lines()
    (folder / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with (folder / "lines.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": number, "text": line}) + "\n" for number, line in enumerate(lines))
    print(f"-- input: {len(lines)} lines of Python's language reference in {os.path.relpath(folder)}")
    return folder


def free_port() -> int:
    """Return a TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(url: str, body: dict[str, Any] | None = None) -> str:
    """GET `url`, or POST `body` to it as JSON; return the answer's text."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def wait_until_ready(server: subprocess.Popen[bytes], url: str, seconds: float = 60) -> None:
    """Wait until the service says that it is ready. Raises DemoError when it ends or takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise DemoError(
                f"the service ended with exit code {server.returncode}: see {DEMO / 'build' / 'service.log'}"
            )
        try:
            ask(f"{url}/readyz")
            return
        except OSError:
            time.sleep(0.1)
    raise DemoError(f"the service was not ready after {seconds:.0f} s: see {DEMO / 'build' / 'service.log'}")


def show_service() -> None:
    """Start the service, ask for a prediction and for its health, stop it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    print(f"-- serve: scripts/run on port {port}", flush=True)
    log = DEMO / "build" / "service.log"
    with log.open("wb") as output:
        environment = {**os.environ, "PORT": str(port)}
        server = subprocess.Popen(["scripts/run"], cwd=DEMO, env=environment, stdout=output, stderr=output)
    try:
        wait_until_ready(server, url)
        texts = ["Rain and strong wind are in the forecast for tomorrow", "The class has two functions and a loop"]
        print(f"   POST /predict {json.dumps({'instances': texts})}\n   {ask(f'{url}/predict', {'instances': texts})}")
        print(f"   GET /livez\n   {ask(f'{url}/livez')}")
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(30)
    if code not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
        raise DemoError(f"the service ended with exit code {code} on SIGTERM: see {log}")
    print("   stopped")


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
