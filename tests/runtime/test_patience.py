"""A registry that is busy is asked again, within a limit, whatever it says; one that refuses is believed at once."""

from __future__ import annotations

import pytest
from gpu_repo_runtime import patience

from tests import processes
from tests.runtime.services import RUNTIME

IN = 'Error parsing image name "docker://host:5000/ml/it:v429": reading manifest v429 in host:5000/ml/it: '
GET = 'Get "http://host:5000/v2/ml/it/manifests/v429"'
# What skopeo 1.9 and Docker 28 make of the answers of a registry.
PASSES = [
    IN + "unknown: slow down",  # 429 with a code that no tool knows
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
    "failed to read from destination repository ml/it: 403 (Forbidden)",
    "denied: requested access to the resource is denied",
    "tag invalid: The image tag 'v1' is immutable",
    "x509: certificate signed by unknown authority",
    "http: server gave HTTP response to HTTPS client",
    "dial tcp: lookup host: no such host",
    "An image does not exist locally with the tag: host:5000/ml/it",
]


def test_what_may_pass_is_asked_again_and_what_is_refused_is_final() -> None:
    assert [said for said in PASSES if patience.REFUSED.search(said)] == []
    assert [said for said in REFUSED if not patience.REFUSED.search(said)] == []


def test_the_command_line_gives_what_it_reads_to_every_try() -> None:
    script = 'read -r word; echo "got $word,$PYTHONPATH." >&2; exit 7'
    around = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(RUNTIME), "REGISTRY_PAUSES": "0 0"}
    done = processes.run("gpu_repo_runtime.patience", "--input", "sh", "-c", script, input="secret\nmore\n", env=around)
    assert (done.returncode, done.stdout, done.stderr.count("got secret,.")) == (7, "", 3), done.stderr


@pytest.mark.parametrize(("told", "tries"), [("0 0 0 0", 5), ("0", 2)])
def test_a_registry_that_needs_longer_gets_it(
    told: str, tries: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGISTRY_PAUSES", told)
    patience.run(["sh", "-c", "echo busy >&2; exit 1"])
    assert capsys.readouterr().err.count("trying again") + 1 == tries
