"""A registry that is busy is asked again, within a limit, whatever it says; one that refuses is believed at once."""

from __future__ import annotations

from gpu_repo_runtime import patience

from tests import processes
from tests.runtime.services import RUNTIME

IN = 'Error parsing image name "docker://host:5000/ml/it:v429": reading manifest v429 in host:5000/ml/it: '
# What skopeo 1.9 and Docker 28 make of the answers of a registry.
PASSES = [
    IN + "unknown: slow down",  # 429 with a code that no tool knows
    IN + "received unexpected HTTP status: 504 Gateway Timeout",
    IN + "denied: rate limit exceeded for your account",
    "Error listing repository tags: fetching tags list: invalid status code from registry 503 (Service Unavailable)",
    "dial tcp 10.0.0.2:5000: connect: connection refused",
    "",
]
REFUSED = [
    IN + "manifest unknown",
    IN + "unauthorized: authentication required",
    "denied: requested access to the resource is denied",
    "tag invalid: The image tag 'v1' is immutable",
    "x509: certificate signed by unknown authority",
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
