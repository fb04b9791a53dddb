"""Findings of device nodes that do not open: GS109 to GS113, GS123, GS124."""

from __future__ import annotations

from ..hands import by_host
from . import Code

CODES = [
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
        fix=by_host(
            "read the kernel log for `NVRM: Xid` and `RmInitAdapter`, reset the GPU (`nvidia-smi "
            "--gpu-reset`) or reboot; replace the card behind {path} if it stays."
        ),
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
        fix=by_host(
            "`modprobe nvidia && nvidia-modprobe -u -c=0`, then remove left-over nodes such as {path}.",
            container=(
                "On the host: `modprobe nvidia nvidia_uvm && nvidia-modprobe -u -c=0`; then recreate the "
                "container, so that {path} is made anew."
            ),
            apptainer="The host's administrator: `modprobe nvidia nvidia_uvm && nvidia-modprobe -u -c=0`.",
            kubernetes=(
                "Delete the pod, so that {path} is made anew; if it stays, start it on another node, and the "
                "cluster's administrator: `modprobe nvidia nvidia_uvm && nvidia-modprobe -u -c=0`."
            ),
        ),
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
                "Give the GPU by CDI and not by a mount of {path}; remove the left-over on the host and "
                "recreate the container."
            ),
            "docker": (
                "Give the GPU by `--gpus all` or CDI and not by `-v`; remove the left-over {path} on the host"
                " and recreate the container."
            ),
            "jetson-docker": "Give the GPU by `--runtime nvidia` and not by `-v`; recreate the container.",
            "podman": (
                "Give the GPU by `--device nvidia.com/gpu=all` and not by `-v`; remove the left-over {path} "
                "on the host and recreate the container."
            ),
            "apptainer": "Give the GPU by `--nv` and not by `--bind {path}`.",
            "kubernetes": (
                "Take hostPath volumes of /dev/nvidia* out of the pod and request `nvidia.com/gpu: 1`; the "
                "cluster's administrator removes the left-over {path} on the node."
            ),
            "slurm": (
                "Submit again with `--exclude={node}`; the site's administrators: remove {path}, then "
                "`nvidia-modprobe -u -c=0`."
            ),
            "wsl": "Remove {path} and run `wsl --shutdown`: WSL makes its nodes at start.",
            "jetson": "Remove {path} and restart the Jetson.",
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
            "*": ("Raise the limit (`ulimit -n`, systemd's LimitNOFILE) or close files: {path} could not be opened."),
            "docker": "Run with `--ulimit nofile=65536`, or close files: {path} could not be opened.",
            "podman": "Run with `--ulimit nofile=65536`, or close files: {path} could not be opened.",
            "kubernetes": (
                "Raise the soft limit in the container's command (`ulimit -n $(ulimit -Hn)`), or close files:"
                " {path} could not be opened."
            ),
            "slurm": (
                "Raise the soft limit in the job's script (`ulimit -n $(ulimit -Hn)`), or close files: {path}"
                " could not be opened."
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
        fix=by_host(
            "read the kernel log for lines of NVRM at the time of the open; {path} gave {value}.",
            any="Read the kernel log for lines of NVRM at the time of the open; {path} gave {value}.",
        ),
        source="open(2)",
    ),
    Code(
        id="GS123",
        layer="device-nodes",
        title="A device node has an old major number",
        symptom="cuInit gives 999 or 304; open() works or gives ENXIO",
        cause="the node was made before a reboot gave the module another number (nvidia-uvm's is dynamic)",
        detect="the node's major number against /proc/devices",
        fix=by_host(
            "remove {path}, run `nvidia-modprobe -u -c=0`.",
            any="Remove {path} and run `nvidia-modprobe -u -c=0`.",
            container="On the host: remove {path}, run `nvidia-modprobe -u -c=0`; then recreate the container.",
            apptainer="The host's administrator: remove {path}, run `nvidia-modprobe -u -c=0`.",
            kubernetes=(
                "Delete the pod, so that {path} is made anew; if it stays, start it on another node, and the "
                "cluster's administrator: remove {path}, run `nvidia-modprobe -u -c=0`."
            ),
        ),
        source="NVIDIA driver README, device nodes",
    ),
    Code(
        id="GS124",
        layer="device-nodes",
        title="The control node is missing",
        symptom="/dev/nvidia0 is there, /dev/nvidiactl is not; CUDA 100 or 999, NVML 9 or 999",
        cause="only some nodes were given (`--device /dev/nvidia0`), or nvidia-modprobe did not make it",
        detect="nodes in /dev",
        fix=by_host(
            "`nvidia-modprobe -c=0 -u`: it makes /dev/nvidiactl.",
            any="Run `nvidia-modprobe -c=0 -u`: it makes /dev/nvidiactl.",
            docker=(
                "Give the GPU with `--gpus all`, which brings /dev/nvidiactl too, and not with single "
                "`--device` options."
            ),
            jetson_docker="Give the GPU with `--runtime nvidia` and not with single `--device` options.",
            podman="Give the GPU with `--device nvidia.com/gpu=all`, which brings /dev/nvidiactl too.",
            apptainer="Start it with `--nv`, which brings /dev/nvidiactl too, and without single `--bind` options.",
            kubernetes=(
                "Request `nvidia.com/gpu: 1` in the pod's limits and take mounts of single nodes in /dev out "
                "of the pod."
            ),
        ),
        apart={
            "*": ("`ls -l /dev/nvidiactl` on the host: there, the container got a part; not there, it was never made"),
        },
        source="NVIDIA driver README, device nodes",
    ),
]
