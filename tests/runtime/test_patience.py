"""A registry that is busy is asked again, within a limit, whatever it says; one that refuses is believed at once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from gpu_repo_runtime import patience

from tests.runtime.services import RUNTIME

COMMAND = ["skopeo", "inspect", "--no-tags", "docker://host:5000/ml/rate-limit/it:v429"]
IN = f'Error parsing image name "{COMMAND[-1]}": reading manifest v429 in host:5000/ml/rate-limit/it: '
GET = 'Get "http://host:5000/v2/ml/rate-limit/it/manifests/v429"'
# What skopeo 1.9 and Docker 28 make of the answers of a registry.
PASSES = [
    IN + "unknown: slow your horses",  # 429 with a code that no tool knows
    IN + "StatusCode: 429, <html>x</html>",
    IN + "StatusCode: 425, ",
    IN + "received unexpected HTTP status: 500 Internal Server Error",
    IN + "received unexpected HTTP status: 504 Gateway Timeout",
    IN + "received unexpected HTTP status: 521 ",
    IN + "denied: rate limit exceeded for your account",
    "Error listing repository tags: too many requests to registry",
    "Error listing repository tags: fetching tags list: invalid status code from registry 503 (Service Unavailable)",
    "trying to reuse blob sha256:e6 at destination: failed to read from ml/it: 502 (Bad Gateway)",
    f"{GET}: read tcp 10.0.0.1:45136->10.0.0.2:5000: connection reset by peer",
    f"{GET}: EOF",
    "dial tcp 10.0.0.2:5000: connect: connection refused",
    "net/http: TLS handshake timeout",
    "invalid character '<' looking for beginning of value",  # the page of a proxy
    "timeout: no answer within 120 s",
    "",
]
REFUSED = [
    IN + "manifest unknown",
    IN + "unauthorized: authentication required",
    IN + "requested access to the resource is denied",
    "Error listing repository tags: fetching tags list: invalid status code from registry 404 (Not Found)",
    "failed to read from destination repository ml/rate-limit/it: 403 (Forbidden)",
    "denied: requested access to the resource is denied",
    "tag invalid: The image tag 'v1' is immutable",
    "x509: certificate signed by unknown authority",
    "http: server gave HTTP response to HTTPS client",
    "dial tcp: lookup host: no such host",
    "An image does not exist locally with the tag: host:5000/ml/rate-limit/it",
]


def test_what_may_pass_is_asked_again() -> None:
    assert [said for said in PASSES if not patience.is_passing(said, COMMAND)] == []


def test_what_is_refused_is_final_whatever_the_image_is_called() -> None:
    assert [said for said in REFUSED if patience.is_passing(said, COMMAND)] == []


class Busy(ThreadingHTTPServer):
    """A registry that answers the first requests with a status and a body, then that there is no such image."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body, self.after, self.times, self.asked = 429, "", "0", 0, 0
        threading.Thread(target=self.serve_forever, args=[0.02], daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: Busy

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        status, body = 404, json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]})
        if self.path == "/v2/":
            status, body = 200, "{}"
        elif self.server.asked < self.server.times:
            self.server.asked += 1
            status, body = self.server.status, self.server.body
        self.send_response(status)
        if status not in (200, 404):
            self.send_header("Retry-After", self.server.after)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Busy]:
    monkeypatch.delenv("REGISTRY_PAUSES", raising=False)
    monkeypatch.setattr(patience, "PAUSES_S", (0, 0))
    server = Busy()
    yield server
    server.shutdown()
    server.server_close()


def ask(server: Busy, limit: float = 60) -> tuple[int, str, str]:
    place = f"docker://127.0.0.1:{server.server_port}/ml/it:v1"
    return patience.run(["skopeo", "inspect", "--no-tags", "--tls-verify=false", place], limit)


OWN = json.dumps({"errors": [{"code": "QUOTA_X", "message": "slow your horses"}]})


@pytest.mark.parametrize(
    ("status", "body"), [(429, OWN), (429, ""), (500, OWN), (503, "<html>later</html>"), (504, "")]
)
@pytest.mark.needs("skopeo")
def test_skopeo_is_patient_with_a_registry(registry: Busy, status: int, body: str) -> None:
    """skopeo itself asks five times after a 429, and after nothing else."""
    each = 5 if status == 429 else 1
    registry.status, registry.body, registry.times = status, body, 2 * each
    assert "manifest unknown" in ask(registry)[2]
    registry.asked, registry.times = 0, 100
    code, _, said = ask(registry)
    assert (code != 0, registry.asked) == (True, 3 * each), said


def patient(*command: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    code = "import runpy, time; time.sleep = lambda _: None; "
    code += "runpy.run_module('gpu_repo_runtime.patience', run_name='__main__', alter_sys=True)"
    around: dict[str, Any] = {"env": {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(RUNTIME)}, "timeout": 60}
    return subprocess.run(
        [sys.executable, "-c", code, *command], input=given, capture_output=True, text=True, check=False, **around
    )


def test_the_command_line_gives_what_it_reads_to_every_try() -> None:
    script = 'read -r word; echo "got $word,$PYTHONPATH." >&2; exit 7'
    done = patient("--input", "sh", "-c", script, given="secret\nmore\n")
    assert (done.returncode, done.stdout, done.stderr.count("got secret,.")) == (7, "", 3), done.stderr


def test_the_command_line_reads_nothing_that_it_was_not_told_to() -> None:
    """The shell of a runner may be reading its script from there."""
    command = ["bash", "-c", f"PYTHONPATH='{RUNTIME}' '{sys.executable}' -m gpu_repo_runtime.patience cat; cat"]
    done = subprocess.run(command, input="the rest\n", capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "the rest\n"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [([], 2, "which command"), (["/no/such"], 127, "No such file"), (["sh", "-c", "kill -9 $$"], 137, "")],
)
def test_the_command_line_ends_with_the_code_of_its_command(command: list[str], code: int, words: str) -> None:
    done = patient(*command)
    assert (done.returncode, words in done.stderr, "Traceback" in done.stderr) == (code, True, False), done.stderr


@pytest.mark.parametrize(
    ("told", "tries", "warned"),
    [("0 0 0 0", 5, False), ("0", 2, False), ("", 3, False), ("soon", 3, True), ("nan 1", 3, True), ("99999", 3, True)],
)
def test_a_registry_that_needs_longer_gets_it(
    told: str, tries: int, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGISTRY_PAUSES", told)
    monkeypatch.setattr(patience, "PAUSES_S", (0, 0))
    patience.run(["sh", "-c", "echo busy >&2; exit 1"])
    said = capsys.readouterr().err
    assert (said.count("trying again") + 1, "REGISTRY_PAUSES is" in said) == (tries, warned), said
