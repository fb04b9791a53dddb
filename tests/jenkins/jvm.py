"""Compile the runner once, and keep one Java machine that answers the requests of this process, one after the other.

The compiled classes are kept under build/jenkinsfile, by a digest of the sources.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Any

from tests.shared import once

HERE = Path(__file__).resolve().parent
DEFINITIONS = HERE / "definitions.json"
COMPILED = HERE.parent.parent / "build" / "jenkinsfile"
JARS = (Path("/usr/share/java/groovy-all.jar"), Path("/usr/share/groovy/embeddable/groovy-all.jar"))
OPTIONS = ("-Xmx512m", "-Xss4m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dfile.encoding=UTF-8")
OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.io", "java.base/java.lang.invoke")


def missing() -> str | None:
    """Return what is missing here to run Jenkinsfiles, or None."""
    absent = [name for name in ("java", "groovyc") if shutil.which(name) is None]
    if absent or not any(jar.exists() for jar in JARS):
        return f"no {' and no '.join(absent) or 'groovy-all.jar'} here (Debian: groovy and default-jre-headless)"
    return None


def _compile(target: Path) -> None:
    target.mkdir()
    java = Path(shutil.which("java") or "java").resolve()
    environment = os.environ | {"JAVA_HOME": str(java.parent.parent), "JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
    command = ["groovyc", "-d", str(target), *map(str, sorted(HERE.glob("groovy/*.groovy")))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"groovyc: {done.stdout}{done.stderr}")


@cache
def _machine() -> subprocess.Popen[str]:
    """Start the machine; it ends when its input does. Raises RuntimeError where Groovy or Java is missing."""
    if absent := missing():
        raise RuntimeError(absent)
    sources = b"\0".join(source.read_bytes() for source in sorted(HERE.glob("groovy/*.groovy")))
    classes = once(COMPILED / hashlib.sha256(sources).hexdigest()[:16], _compile)
    jar = next(jar for jar in JARS if jar.exists())
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    command = ["java", *OPTIONS, *opened, "-cp", f"{jar}:{classes}", "jenkinsfile.Main", str(DEFINITIONS)]
    machine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    assert machine.stdin
    atexit.register(machine.stdin.close)
    return machine


def call(request: dict[str, Any], seconds: float = 900) -> dict[str, Any]:
    """Answer one request. Raises RuntimeError where the machine ended, also because the answer took too long."""
    machine = _machine()
    assert machine.stdin
    assert machine.stdout
    timer = threading.Timer(seconds, machine.kill)
    timer.start()
    try:
        machine.stdin.write(json.dumps(request) + "\n")
        machine.stdin.flush()
        line = machine.stdout.readline()
    finally:
        timer.cancel()
    if not line:
        _machine.cache_clear()
        raise RuntimeError(f"the runner ended, or did not answer within {seconds} s: {request}")
    answer: dict[str, Any] = json.loads(line)
    return answer
