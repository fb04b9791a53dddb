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
            "kubernetes": (
                "Request `nvidia.com/gpu: 1` in the pod's resource limits; if it then stays Pending, the node's "
                "device plugin is not running (`kubectl describe node | grep nvidia.com/gpu`); if it did ask, set"
                " `runtimeClassName: nvidia`."
            ),
            "apptainer": "Start it with `apptainer run --nv` on a GPU machine.",
            "wsl": "Install the NVIDIA driver in Windows and run `wsl --update`.",
        },
        apart=(
            "`lspci -d 10de:` on the host: no line, there is no NVIDIA GPU; a line, its driver or the "
            "container's option is missing"
        ),
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
            "kubernetes": (
                "Request `nvidia.com/gpu: 1` in the pod's resource limits; if it then stays Pending, the node's "
                "device plugin is not running (`kubectl describe node | grep nvidia.com/gpu`); if it did ask, set"
                " `runtimeClassName: nvidia`."
            ),
            "apptainer": "Start it with `apptainer run --nv`.",
        },
        source="NVIDIA/nvidia-docker#400",
    ),
    Code(
        id="GS103",
        layer="device-nodes",
        title="The device cgroup refuses the GPU",
        symptom="`Operation not permitted`; NVML `Unknown Error` after the container ran for days",
        cause=(
            "a systemd reload dropped the container's device rules, or they were never set: `no-cgroups = "
            "true` in the toolkit's configuration, a rootless engine, another user's GPU"
        ),
        detect="the node exists, open() gives EPERM",
        fix={
            "*": (
                "Recreate the container; give the GPU by CDI or create the /dev/char links so that reloads keep "
                "the rules."
            ),
            "kubernetes": ("Delete the pod; let the device plugin give the GPU by CDI so that reloads keep the rules."),
            "rootless": (
                "Rootless engine: on the host set `no-cgroups = true` (`nvidia-ctk config --set "
                "nvidia-container-cli.no-cgroups --in-place`) and give the GPU by CDI; recreate the container."
            ),
            "slurm": "Ask Slurm for the GPU (`--gres=gpu:1`): its device rules give a job only its own GPUs.",
        },
        apart=(
            "did it work in this container before? Then it was the reload; else `grep no-cgroups "
            "/etc/nvidia-container-runtime/config.toml` on the host: true is right for rootless engines only"
        ),
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
            "rootless": (
                "Rootless engine: keep the groups of the calling user (`--group-add keep-groups`) or `chmod 666 "
                "{path}` on the host."
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
            "Update the host driver, use an image for the older driver, or set NVIDIA_DISABLE_REQUIRE=1 if "
            "you know it runs."
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
            "Install nvidia-container-toolkit, run `nvidia-ctk runtime configure --runtime=docker` and "
            "restart Docker (not the snap)."
        ),
        source="NVIDIA/nvidia-docker#1034, #1642",
    ),
    Code(
        id="GS109",
        layer="device-nodes",
        title="The driver cannot start the GPU behind a node",
        symptom=("open() gives EIO; CUDA 100, 101 or 999; nvidia-smi lacks the GPU or says `No devices were found`"),
        cause=(
            "the GPU failed when the driver started it (RmInitAdapter failed: power, firmware, a lost link), "
            "or it fell off the bus"
        ),
        detect="the node exists, open() gives EIO",
        fix={
            "*": (
                "Read the kernel log for `NVRM: Xid` and `RmInitAdapter`; on the host `nvidia-smi --gpu-reset`, "
                "reboot, or replace the card behind {path}."
            ),
            "kubernetes": (
                "Drain the node, read its kernel log for `NVRM: Xid` and `RmInitAdapter`, reboot it; replace the "
                "card behind {path} if it stays."
            ),
        },
        apart=("`dmesg | grep -iE 'xid|rminitadapter'`: Xid 79 is a lost GPU, RmInitAdapter one that did not start"),
        source="open(2); NVIDIA driver README",
    ),
    Code(
        id="GS110",
        layer="device-nodes",
        title="A device node leads to no device",
        symptom="open() gives ENXIO or ENODEV",
        cause=(
            "the node is a left-over: the kernel module is not loaded (or nvidia_uvm is not), or the GPU of "
            "that number is gone"
        ),
        detect="the node exists, open() gives ENXIO or ENODEV",
        fix={
            "*": (
                "On the host: `modprobe nvidia && nvidia-modprobe -u -c=0`, then remove left-over nodes such as {path}."
            ),
            "container": (
                "On the host: `modprobe nvidia nvidia_uvm && nvidia-modprobe -u -c=0`; then recreate the "
                "container, so that {path} is made anew."
            ),
        },
        apart="`ls -l /dev/nvidia*; grep nvidia /proc/devices; lsmod | grep nvidia` on the host",
        source="open(2)",
    ),
    Code(
        id="GS111",
        layer="device-nodes",
        title="What should be a device node is none",
        symptom="open() gives EISDIR, ELOOP or ENOENT, or a plain file stands there",
        cause=(
            "a bind mount or `-v /dev/nvidia0:/dev/nvidia0` whose source did not exist on the host: a "
            "directory or an empty file was made"
        ),
        detect="stat and open() of the node",
        fix={
            "*": "Remove {path} and let the driver make it: `nvidia-modprobe -u -c=0`.",
            "container": (
                "Give the GPU by `--gpus all` or CDI and not by `-v`; remove the left-over {path} on the host and"
                " recreate the container."
            ),
        },
        source="open(2)",
    ),
    Code(
        id="GS112",
        layer="device-nodes",
        title="Too few files may be open",
        symptom="open() gives EMFILE or ENFILE",
        cause="the limit on open files of this process (`ulimit -n`) or of the machine is reached",
        detect="open() of a node gives EMFILE or ENFILE",
        fix={
            "*": (
                "Raise the limit (`ulimit -n`, systemd's LimitNOFILE, Docker's `--ulimit nofile`) or close files:"
                " {path} could not be opened."
            ),
        },
        source="open(2)",
    ),
    Code(
        id="GS113",
        layer="device-nodes",
        title="A device node cannot be opened",
        symptom="open() gives the error shown",
        cause="see the error",
        detect="the node exists, open() gives {value}",
        fix="Read the kernel log for lines of NVRM at the time of the open; {path} gave {value}.",
        source="open(2)",
    ),
    Code(
        id="GS123",
        layer="device-nodes",
        title="A device node has an old major number",
        symptom="cuInit gives 999 or 304; open() works or gives ENXIO",
        cause="the node was made before a reboot gave the module another number (nvidia-uvm's is dynamic)",
        detect="the node's major number against /proc/devices",
        fix={
            "*": "Remove {path} and run `nvidia-modprobe -u -c=0`.",
            "container": "On the host: remove {path}, run `nvidia-modprobe -u -c=0`; then recreate the container.",
        },
        source="NVIDIA driver README, device nodes",
    ),
    Code(
        id="GS124",
        layer="device-nodes",
        title="The control node is missing",
        symptom="/dev/nvidia0 is there, /dev/nvidiactl is not; CUDA 100 or 999, NVML 9 or 999",
        cause="only some nodes were given (`--device /dev/nvidia0`), or nvidia-modprobe did not make it",
        detect="nodes in /dev",
        fix={
            "*": "Run `nvidia-modprobe -c=0 -u`: it makes /dev/nvidiactl.",
            "docker": (
                "Give the GPU with `--gpus all`, which brings /dev/nvidiactl too, and not with single `--device` "
                "options."
            ),
            "podman": "Give the GPU with `--device nvidia.com/gpu=all`, which brings /dev/nvidiactl too.",
            "kubernetes": (
                "Request `nvidia.com/gpu: 1` in the pod's limits and take mounts of single nodes in /dev out of "
                "the pod."
            ),
        },
        apart=(
            "`ls -l /dev/nvidiactl` on the host: there, the container got a part; not there, nvidia-modprobe "
            "did not run"
        ),
        source="NVIDIA driver README, device nodes",
    ),
]
