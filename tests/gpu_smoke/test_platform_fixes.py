"""Every code on every platform: a fix that can be done there."""

from __future__ import annotations

import re

import pytest

from tests.gpu_smoke.smoke_machine import Machine, told
from tests.sampling import sampled

ENGINE = (
    r"\bdocker run|\bdocker\b(?! and restart)|podman|--gpus\b(?!=\d)|--device\b|--runtime\b(?!=(containerd|docker))|"
    r"--shm-size|--ipc\b|--ulimit|--group-add|--security-opt"
)
APPTAINER, SLURM = r"apptainer|--nv\b", r"\bsrun\b|--gres|--exclude|[Ss]lurm"
CLUSTER = r"kubectl|\bpods?\b|runtimeClass|securityContext|nvidia\.com/gpu: "
WSL = r"\bwsl\b"
GIVEN = r"NVIDIA_DRIVER_CAPABILITIES|NVIDIA_VISIBLE_DEVICES"
ANEW = r"[Rr]ecreate the container"
LINUX_HOST = (
    r"rmmod|modprobe|systemctl|--gpu-reset|nvidia-smi (-c|-pm|-mig|mig)|lspci|dmesg|initramfs|fabricmanager|On the host"
)
POD, JOB, IN_SIF = {"KUBERNETES_SERVICE_HOST": "1"}, {"SLURM_JOB_ID": "7"}, "/.singularity.d/x"
# Platform: its files, its variables, its names from the most specific to the least, and what no line there may have.
PLATFORMS = {
    "bare": ((), {}, "bare", (ENGINE, APPTAINER, CLUSTER, SLURM, ANEW, GIVEN, "wsl")),
    "docker": (("/.dockerenv",), {}, "docker container", ("podman", APPTAINER, CLUSTER, SLURM, WSL)),
    "podman": (("/run/.containerenv",), {}, "podman container",
               (r"docker\b", r"--gpus\b", APPTAINER, CLUSTER, SLURM, WSL)),
    "rootless": (("/run/.containerenv", "/proc/self/uid_map"), {}, "rootless podman container",
                 (APPTAINER, CLUSTER, SLURM, "chmod 666", WSL)),
    "apptainer": ((IN_SIF,), {}, "apptainer container", (ENGINE, CLUSTER, SLURM, ANEW, f"({GIVEN})=c", WSL)),
    "lxc": ((), {"container": "lxc"}, "lxc container", (ENGINE, APPTAINER, CLUSTER, SLURM, WSL)),
    "kubernetes": ((), POD, "kubernetes container", (ENGINE, APPTAINER, SLURM, ANEW, "wsl")),
    "kubernetes-userns": (("/proc/self/uid_map",), POD, "kubernetes container",
                          (ENGINE, APPTAINER, SLURM, ANEW, "wsl")),
    "gke": (("/usr/local/nvidia/x",), POD, "gke kubernetes container", (ENGINE, APPTAINER, SLURM, ANEW, "wsl")),
    "slurm": ((), JOB, "slurm slurm-node", (ENGINE, APPTAINER, CLUSTER, ANEW, GIVEN, "wsl")),
    "slurm-apptainer": ((IN_SIF,), JOB, "slurm apptainer container", (ENGINE, CLUSTER, ANEW, "wsl")),
    "wsl": (("/dev/dxg",), {}, "wsl", (ENGINE, APPTAINER, CLUSTER, SLURM, LINUX_HOST, GIVEN)),
    "jetson": (("/dev/nvgpu",), {}, "jetson",
               (ENGINE, APPTAINER, CLUSTER, SLURM, GIVEN, "nvidia-modprobe|rmmod|lspci", WSL)),
    "jetson-docker": (("/dev/nvgpu", "/.dockerenv"), {}, "jetson-docker docker container jetson",
                      (r"--gpus\b", "podman", APPTAINER, CLUSTER, SLURM, WSL)),
    "wsl-docker": (("/dev/dxg", "/.dockerenv"), {}, "wsl-docker docker container wsl",
                   ("podman", APPTAINER, CLUSTER, SLURM)),
}  # fmt: skip
# Codes that say nothing outside of one place, which their text may name.
ONLY_AT = {
    "GS102": ("container",), "GS106": ("bare", "slurm"), "GS108": (),
    "GS114": ("container",), "GS115": ("container",), "GS127": ("docker", "podman", "kubernetes"),
    "GS117": ("slurm",), "GS118": ("gvisor",),
    "GS224": ("wsl",), "GS329": ("wsl",),
}  # fmt: skip
# Of what only servers have: NVSwitch, MIG, vGPU. Neither Windows nor a Jetson shows them.
OF_SERVERS = {"GS120", "GS125", "GS126", "GS128", "GS301", "GS308", "GS321", "GS324", "GS325", "GS330",
              "GS331", "GS332", "GS419"}  # fmt: skip


@pytest.fixture(scope="module")
def explained() -> dict[str, dict[str, dict[str, str]]]:
    """Return what `--explain all` prints: code -> fix or "tell apart" -> name of a platform -> line."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for section in re.split(r"^### ", told("--explain", "all").text, flags=re.M)[1:]:
        entry = found.setdefault(section.split(":")[0], {"fix": {}, "tell apart": {}})
        entry["fix"].update(re.findall(r"^    - (\S+): (.*)$", section, re.M))
        entry["tell apart"].update(re.findall(r"^- To tell apart \((\S+)\): (.*)$", section, re.M))
    return found


def lines(explained: dict[str, dict[str, dict[str, str]]], platform: str) -> list[tuple[str, str, str]]:
    """Return code, kind and text of each line that a platform gets, of the findings that can be met there."""
    names = PLATFORMS[platform][2].split()
    found = []
    for code, kinds in explained.items():
        met = {*ONLY_AT.get(code, names)} & {*names}
        if not met or (code in OF_SERVERS and {"wsl", "jetson"} & {*names}):
            continue
        for kind, texts in kinds.items():
            # Windows, WSL's host, has its own way to tell apart what Linux's programs show (test_rules.py).
            if kind == "fix" or "wsl" not in names:
                text = next((texts[name] for name in [*names, "anywhere"] if name in texts), "")
                found.append((code, kind, text))
    return found


def test_every_code_has_a_fix_everywhere_and_no_line_is_of_another_platform(explained: dict) -> None:
    for platform, (_, _, _, foreign) in PLATFORMS.items():
        words, found = re.compile("|".join(foreign)), lines(explained, platform)
        assert not [one for one in found if words.search(one[2])], f"on {platform}"
        assert not [code for code, kind, text in found if kind == "fix" and not text.strip()], f"on {platform}"


def test_places_of_lines_exist(explained: dict) -> None:
    """A line under a name that no platform has would never be read."""
    known = {"anywhere", "gvisor"} | {name for _, _, names, _ in PLATFORMS.values() for name in names.split()}
    used = {(code, name) for code, kinds in explained.items() for texts in kinds.values() for name in texts}
    assert not {(code, name) for code, name in used if name not in known}


@pytest.mark.parametrize("platform", sampled(PLATFORMS, ["bare", "rootless", "kubernetes"]))
def test_names_of_a_platform(no_libraries: Machine, platform: str) -> None:
    files, variables, names, _ = PLATFORMS[platform]
    for path in files:
        no_libraries.file(path, "0 100000 65536\n")
    assert no_libraries.variables(**variables).run().report["platform"]["names"] == names.split()
