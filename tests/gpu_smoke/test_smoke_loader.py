"""What the loader says, as one line of its message: told apart, with what the machine says of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_smoke import loader
from gpu_smoke.host import Host
from gpu_smoke.platforms import detect
from gpu_smoke.policy import Options
from gpu_smoke.row import Row
from gpu_smoke.verdicts import Context

FILE = "/mnt/lib/libcuda.so.1"
PLAIN, NOEXEC = (f"30 1 8:1 / /mnt rw,{option} - ext4 /dev/sda1 rw\n" for option in ("relatime", "noexec"))
# What the loader says, the mounts, the finding.
MESSAGES = [
    (f"{FILE}: failed to map segment from shared object", NOEXEC, "GS227"),
    (f"{FILE}: failed to map segment from shared object: Operation not permitted", "", "GS227"),
    (f"{FILE}: failed to map segment from shared object: Permission denied", PLAIN, "GS228"),
    (f"{FILE}: cannot open shared object file: Permission denied", PLAIN, "GS228"),
    (f"{FILE}: cannot allocate memory in static TLS block", "", "GS229"),
]
ALSO = [
    ("libnvidia-x.so.1: cannot open shared object file: No such file or directory", "", "GS225"),
    ("/lib/libc.so.6: version `GLIBC_2.38' not found (required by /mnt/lib/libcuda.so.1)", "", "GS226"),
    (f"{FILE}: cannot open shared object file: Too many open files", "", "GS112"),
    ("libcuda.so.1: cannot open shared object file: No such file or directory", "", None),
    (f"{FILE}: undefined symbol: cuInit", "", None),
]


def context(root: Path, mounts: str) -> Context:
    """Return a machine with these mounts."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    host = Host(str(root))
    return Context(host, {}, detect(host, {}), Row("", False, {}), Options())


@pytest.mark.parametrize(("message", "mounts", "code"), [*MESSAGES, *ALSO])
def test_messages_are_told_apart(tmp_path: Path, message: str, mounts: str, code: str | None) -> None:
    found = loader.explain(context(tmp_path, mounts), message, "libcuda.so.1")
    assert (found and found.code) == code, found
    if found:
        assert message.split(":")[0] in found.evidence


def test_a_map_without_memory_is_the_limit_on_addresses(tmp_path: Path) -> None:
    made = context(tmp_path, "")
    message = f"{FILE}: failed to map segment from shared object: Cannot allocate memory"
    made.facts["device-nodes"] = {"limits": {"as": 1 << 29}}
    assert loader.explain(made, message, "libcuda.so.1").code == "GS317"
    made.facts["device-nodes"] = {"limits": {"as": None}}
    assert loader.explain(made, message, "libcuda.so.1").code == "GS228"
