"""Compile the runner once, and keep one Java machine that answers many requests.

The compiled classes are kept under build/jenkinsfile, by a digest of the sources.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "groovy"
DEFINITIONS = HERE / "definitions.json"
COMPILED = HERE.parent.parent / "build" / "jenkinsfile"
JARS = (Path("/usr/share/java/groovy-all.jar"), Path("/usr/share/groovy/embeddable/groovy-all.jar"))
OPTIONS = ("-Xmx512m", "-Xss4m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dfile.encoding=UTF-8")
OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.io", "java.base/java.lang.invoke")


def missing() -> str | None:
    """Say what is missing here to run Jenkinsfiles, or return None."""
    absent = [name for name in ("java", "groovyc") if shutil.which(name) is None]
    if absent or not any(jar.exists() for jar in JARS):
        return f"no {' and no '.join(absent) or 'groovy-all.jar'} here (Debian: groovy and default-jre-headless)"
    return None


def command() -> list[str]:
    """Return the command line of the runner; compile it if its sources changed. Raises RuntimeError."""
    absent = missing()
    if absent:
        raise RuntimeError(absent)
    jar = next(jar for jar in JARS if jar.exists())
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    return ["java", *OPTIONS, *opened, "-cp", f"{jar}:{_classes()}", "jenkinsfile.Main", str(DEFINITIONS)]


def _classes() -> Path:
    sources = sorted(SOURCES.glob("*.groovy"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = COMPILED / digest
    if target.is_dir():
        return target
    COMPILED.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="compiling-", dir=COMPILED))
    environment = {**os.environ, "JAVA_HOME": str(_java_home()), "JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
    done = subprocess.run(
        ["groovyc", "-d", str(made), *map(str, sources)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        shutil.rmtree(made)
        raise RuntimeError(f"groovyc: {done.stdout}{done.stderr}")
    try:
        made.rename(target)
    except OSError:  # another process was faster
        shutil.rmtree(made)
    return target


def _java_home() -> Path:
    java = shutil.which("java")
    assert java
    return Path(java).resolve().parent.parent


class Machine:
    """One Java machine that answers requests, one after the other."""

    def __init__(self) -> None:
        """Start it; it ends when its input does. Raises RuntimeError when Groovy or Java is missing."""
        self._lock = threading.Lock()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the machine)
        self._process = subprocess.Popen(
            command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def call(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Answer one request. Raises TimeoutError after `seconds`, RuntimeError when the machine ended."""
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            timer = threading.Timer(seconds, self._process.kill)
            timer.start()
            try:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            finally:
                fired = not timer.is_alive()
                timer.cancel()
        if not line:
            if fired:
                raise TimeoutError(f"the runner did not end within {seconds} s: {request}")
            self._errors.seek(0)
            raise RuntimeError(f"the runner ended: {self._errors.read()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it."""
        if self._process.stdin and self.alive:
            self._process.stdin.close()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()


_machine: Machine | None = None


def call(request: dict[str, Any], seconds: float = 900) -> dict[str, Any]:
    """Answer one request in this process' own Java machine, which is started when first needed."""
    global _machine
    if _machine is None or not _machine.alive:
        _machine = Machine()
        atexit.register(_machine.close)
    return _machine.call(request, seconds)
