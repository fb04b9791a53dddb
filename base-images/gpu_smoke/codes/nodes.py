"""Findings of the device nodes: GS1xx."""

from __future__ import annotations

from . import Code

CODES = [
    Code(
        id="GS101",
        layer="device-nodes",
        severity="info",
        title="There is no GPU here",
        symptom="no /dev/nvidia*, no kernel module; CUDA programs say 100, 3 or 35",
        cause=("the machine has no NVIDIA GPU, its driver is not installed, or the container was started without one"),
        detect="no device node, no /proc/driver/nvidia/version, and cuInit gave no device",
        fix={
            "*": "Run on a machine with an NVIDIA GPU and its driver.",
            "docker": "Start the container with `docker run --gpus all` on a GPU machine.",
            "podman": "Start it with `podman run --device nvidia.com/gpu=all` on a GPU machine.",
            "kubernetes": "Request `nvidia.com/gpu: 1` in the pod's resource limits.",
            "apptainer": "Start it with `apptainer run --nv` on a GPU machine.",
            "wsl": "Install the NVIDIA driver in Windows and run `wsl --update`.",
        },
        source="NVIDIA/nvidia-docker#400",
    ),
    Code(
        id="GS102",
        layer="device-nodes",
        severity="warning",
        title="The host has a GPU, this container has none",
        symptom="CUDA error 35 or 100 in the container, nvidia-smi works on the host",
        cause="the container was started without the GPU",
        detect="/proc/driver/nvidia/version answers, but there is no /dev/nvidiactl",
        fix={
            "*": "Start the container with the GPU.",
            "docker": "Start it with `docker run --gpus all`.",
            "podman": "Start it with `podman run --device nvidia.com/gpu=all`.",
            "kubernetes": "Request `nvidia.com/gpu: 1` in the pod's resource limits.",
            "apptainer": "Start it with `apptainer run --nv`.",
        },
        source="NVIDIA/nvidia-docker#400",
    ),
    Code(
        id="GS103",
        layer="device-nodes",
        title="The device cgroup refuses the GPU",
        symptom="NVML `Unknown Error` after the container ran for days",
        cause="a systemd reload dropped the container's device rules",
        detect="the node exists, open() gives EPERM",
        fix={
            "*": (
                "Recreate the container; give the GPU by CDI or create the /dev/char links so that reloads keep the "
                "rules."
            ),
            "kubernetes": "Delete the pod; let the device plugin give the GPU by CDI so that reloads keep the rules.",
        },
        source="NVIDIA/nvidia-container-toolkit#48; NVIDIA/gpu-operator#485",
    ),
    Code(
        id="GS104",
        layer="device-nodes",
        title="No permission on the device node",
        symptom="NVML `Insufficient Permissions`, CUDA 100 or 304",
        cause="file mode, group or SELinux label forbids this user",
        detect="the node exists, open() gives EACCES",
        fix={
            "*": "Give the user the group of {path}, or `chmod 666 {path}`.",
            "docker": (
                "On an SELinux host: `setsebool -P container_use_devices=1`; else run with `--group-add` of the "
                "node's group."
            ),
            "podman": (
                "Run with `--group-add keep-groups`; on an SELinux host: `setsebool -P container_use_devices=1`."
            ),
        },
        source="NVIDIA/nvidia-container-toolkit#210, #580",
    ),
    Code(
        id="GS105",
        layer="device-nodes",
        title="/dev/nvidia-uvm is missing",
        symptom="cuInit gives 999 (unknown error), nvidia-smi works",
        cause="the unified memory module is not loaded or its node was not made or mounted",
        detect="stat /dev/nvidia-uvm; counts as a fault when cuInit fails",
        fix={
            "*": "On the host: `nvidia-modprobe -u -c=0`.",
            "docker": "On the host: `nvidia-modprobe -u -c=0`; then recreate the container with `--gpus all`.",
            "kubernetes": "On the node: `nvidia-modprobe -u -c=0`; then delete the pod.",
        },
        source="pytorch/pytorch#49081",
    ),
    Code(
        id="GS106",
        layer="device-nodes",
        title="The driver is loaded but made no device nodes",
        symptom="CUDA 100 as a normal user, works after root ran nvidia-smi once",
        cause="nothing called nvidia-modprobe since boot",
        detect="/proc/driver/nvidia/version answers on a bare machine, no /dev/nvidiactl",
        fix="Run `nvidia-modprobe -c=0 -u` or enable nvidia-persistenced.",
        source="NVIDIA driver README, device nodes",
    ),
    Code(
        id="GS107",
        layer="device-nodes",
        severity="warning",
        title="The image asks for a newer driver",
        symptom="`unsatisfied condition: cuda>=...` when the container starts",
        cause="NVIDIA_REQUIRE_CUDA in the image does not fit the host's driver",
        detect="evaluate NVIDIA_REQUIRE_CUDA against the driver's version",
        fix=(
            "Update the host driver, use an image for the older driver, or set NVIDIA_DISABLE_REQUIRE=1 if you "
            "know it runs."
        ),
        source="NVIDIA/nvidia-container-toolkit#152",
    ),
    Code(
        id="GS108",
        layer="device-nodes",
        severity="warning",
        title="Docker here cannot give a GPU to containers",
        symptom='`could not select device driver "" with capabilities: [[gpu]]`',
        cause="the NVIDIA container toolkit is not installed, or Docker is the snap package",
        detect="bare machine with a GPU: docker is there, nvidia-container-runtime and nvidia-ctk are not",
        fix=(
            "Install nvidia-container-toolkit, run `nvidia-ctk runtime configure --runtime=docker` and restart "
            "Docker (not the snap)."
        ),
        source="NVIDIA/nvidia-docker#1034, #1642",
    ),
]
