"""Every code on every platform: a fix that can be done there, and that takes nothing from others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpu_smoke.findings import Code, catalogue
from gpu_smoke.host import Host
from gpu_smoke.platforms import detect

ENGINE = (
    r"\bdocker run|\bdocker\b(?! and restart)|podman|--gpus\b(?!=\d)|--device\b|--runtime\b(?!=(containerd|docker))|"
    r"--shm-size|--ipc\b|--ulimit|--group-add|--security-opt"
)
APPTAINER, SLURM = r"apptainer|--nv\b", r"\bsrun\b|--gres|--exclude|[Ss]lurm"
CLUSTER = r"kubectl|\bpods?\b|runtimeClass|securityContext|nvidia\.com/gpu: "
WSL = r"\bwsl\b"
GIVEN = r"NVIDIA_DRIVER_CAPABILITIES|NVIDIA_VISIBLE_DEVICES"
ANEW = r"[Rr]ecreate the container"
# What only the owner of a machine may do, or what hits others who use it.
OWNER = (
    r"chmod|chown|rmmod|modprobe|setsebool|restorecon|usermod|systemctl|nvidia-ctk|fuser|\bapt\b|gridd\.conf|"
    r"nvidia-smi (-c|-pm|-mig|mig|--gpu-reset|conf-compute)|\b[Rr]eboot|[Rr]eset (the )?GPU|[Bb]lacklist|kernel log|"
    r"[Rr]einstall|[Ii]nstall the driver|[Uu]pdate the host|replace the card|On the host"
)
LINUX_HOST = (
    r"rmmod|modprobe|systemctl|--gpu-reset|nvidia-smi (-c|-pm|-mig|mig)|lspci|dmesg|initramfs|fabricmanager|On the host"
)
POD, JOB, IN_SIF = {"KUBERNETES_SERVICE_HOST": "1"}, {"SLURM_JOB_ID": "7"}, "/.singularity.d/x"
# Platform: its files, its variables, and what no line there may have.
PLATFORMS = {
    "bare": ((), {}, (ENGINE, APPTAINER, CLUSTER, SLURM, ANEW, GIVEN, "wsl")),
    "docker": (("/.dockerenv",), {}, ("podman", APPTAINER, CLUSTER, SLURM, WSL)),
    "podman": (("/run/.containerenv",), {}, (r"docker\b", r"--gpus\b", APPTAINER, CLUSTER, SLURM, WSL)),
    "rootless": (("/run/.containerenv", "/proc/self/uid_map"), {}, (APPTAINER, CLUSTER, SLURM, "chmod 666", WSL)),
    "apptainer": ((IN_SIF,), {}, (ENGINE, CLUSTER, SLURM, ANEW, f"({GIVEN})=c", WSL)),
    "lxc": ((), {"container": "lxc"}, (ENGINE, APPTAINER, CLUSTER, SLURM, WSL)),
    "kubernetes": ((), POD, (ENGINE, APPTAINER, SLURM, ANEW, "wsl")),
    "kubernetes-userns": (("/proc/self/uid_map",), POD, (ENGINE, APPTAINER, SLURM, ANEW, "wsl")),
    "gke": (("/usr/local/nvidia/x",), POD, (ENGINE, APPTAINER, SLURM, ANEW, "wsl")),
    "slurm": ((), JOB, (ENGINE, APPTAINER, CLUSTER, ANEW, GIVEN, "wsl")),
    "slurm-apptainer": ((IN_SIF,), JOB, (ENGINE, CLUSTER, ANEW, "wsl")),
    "wsl": (("/dev/dxg",), {}, (ENGINE, APPTAINER, CLUSTER, SLURM, LINUX_HOST, GIVEN)),
    "jetson": (("/dev/nvgpu",), {}, (ENGINE, APPTAINER, CLUSTER, SLURM, GIVEN, "nvidia-modprobe|rmmod|lspci", WSL)),
    "jetson-docker": (("/dev/nvgpu", "/.dockerenv"), {}, (r"--gpus\b", "podman", APPTAINER, CLUSTER, SLURM, WSL)),
    "wsl-docker": (("/dev/dxg", "/.dockerenv"), {}, ("podman", APPTAINER, CLUSTER, SLURM)),
}  # fmt: skip
# Codes that say nothing outside of one place, which their text may name.
ONLY_AT = {
    "GS102": ("container",), "GS106": ("bare", "slurm"), "GS108": ("a bare machine with Docker",),
    "GS114": ("container",), "GS115": ("container",), "GS127": ("docker", "podman", "kubernetes"),
    "GS117": ("slurm",), "GS118": ("gvisor",),
    "GS224": ("wsl",), "GS329": ("wsl",),
}  # fmt: skip
# Of what only servers have: NVSwitch, MIG, vGPU, confidential computing. Neither Windows nor a Jetson shows them.
OF_SERVERS = {"GS120", "GS125", "GS126", "GS301", "GS308", "GS320", "GS321", "GS324", "GS325", "GS330",
              "GS331", "GS332", "GS419"}  # fmt: skip
# Read after these words, a line tells what somebody else does.
HANDED_ON = re.compile(r"administrators?\b.*", re.S)


def names(tmp_path: Path, platform: str) -> list[str]:
    """Return the keys of fix lines that the program finds on a platform."""
    files, env, _ = PLATFORMS[platform]
    for path in files:
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("0 100000 65536\n")
    return detect(Host(str(tmp_path)), env).names


def lines(platform_names: list[str]) -> list[tuple[Code, str, str]]:
    """Return each code's fix and what tells its causes apart on a platform where the code can be met."""
    met = [
        entry
        for entry in catalogue().values()
        if set(ONLY_AT.get(entry.id, platform_names)) & {*platform_names, "bare" if platform_names == ["bare"] else ""}
        and not (entry.id in OF_SERVERS and {"wsl", "jetson"} & {*platform_names})
    ]
    return [(one, one.fix_for(platform_names), one.tell_apart_for(platform_names)) for one in met]


def test_no_fix_is_of_another_platform(tmp_path: Path) -> None:
    for platform in PLATFORMS:
        foreign = re.compile("|".join(PLATFORMS[platform][2]))
        found = [
            f"{entry.id}: `{match.group()}` in: {text}"
            for entry, fix, apart in lines(names(tmp_path / platform, platform))
            for text in (fix, apart)
            if (match := foreign.search(text))
        ]
        assert not found, f"on {platform}:\n" + "\n".join(found)


@pytest.mark.parametrize("platform", ["kubernetes", "gke", "slurm", "slurm-apptainer"])
def test_who_shares_a_machine_is_not_told_to_do_what_its_owner_does(tmp_path: Path, platform: str) -> None:
    owner = re.compile(OWNER)
    found = [
        f"{entry.id}: `{match.group()}` in: {fix}"
        for entry, fix, _ in lines(names(tmp_path / platform, platform))
        if (match := owner.search(HANDED_ON.sub("", fix)))
    ]
    assert not found, f"on {platform}:\n" + "\n".join(found)


def test_every_code_has_a_fix_everywhere(tmp_path: Path) -> None:
    for platform in PLATFORMS:
        empty = [entry.id for entry, fix, _ in lines(names(tmp_path / platform, platform)) if not fix.strip()]
        assert not empty, f"on {platform}: {empty}"


def test_places_of_lines_exist(tmp_path: Path) -> None:
    """A line under a name that no platform has would never be read."""
    known = {"anywhere", "gvisor"} | {name for platform in PLATFORMS for name in names(tmp_path / platform, platform)}
    wrong = {
        f"{entry.id}: {name}"
        for entry in catalogue().values()
        for texts in (entry.fix, entry.tell_apart)
        for name in texts
        if name not in known
    }
    assert not wrong, sorted(wrong)
