"""Findings of a GPU that was not given: GS114 to GS120."""

from __future__ import annotations

from ..hands import by_host
from . import Code

CODES = [
    Code(
        id="GS114",
        layer="device-nodes",
        severity="warning",
        title="The GPU was asked for, and the container runtime did not give it",
        symptom="NVIDIA_VISIBLE_DEVICES names a GPU, there is no /dev/nvidia*",
        cause=(
            "the container does not run under NVIDIA's runtime: in Kubernetes the pod has no runtime class "
            "and the node's default is runc"
        ),
        detect="NVIDIA_VISIBLE_DEVICES names GPUs, no device node is here",
        fix={
            "*": "Start the container under NVIDIA's runtime or give the GPU by CDI.",
            "docker": (
                "Start it with `docker run --gpus all` or `--runtime=nvidia`; NVIDIA_VISIBLE_DEVICES={value} "
                "alone gives nothing."
            ),
            "jetson-docker": (
                "Start it with `docker run --runtime nvidia`; NVIDIA_VISIBLE_DEVICES={value} alone gives nothing."
            ),
            "podman": (
                "Start it with `podman run --device nvidia.com/gpu=all`; NVIDIA_VISIBLE_DEVICES={value} alone"
                " gives nothing."
            ),
            "apptainer": "Start it with `apptainer run --nv`; NVIDIA_VISIBLE_DEVICES={value} alone gives nothing.",
            "kubernetes": (
                "Set `runtimeClassName: nvidia` in the pod; or the cluster's administrator makes nvidia the "
                "default runtime of the node's containerd (`nvidia-ctk runtime configure --runtime=containerd"
                " --set-as-default`)."
            ),
        },
        source="NVIDIA/k8s-device-plugin, README",
    ),
    Code(
        id="GS115",
        layer="device-nodes",
        severity="warning",
        title="NVIDIA_VISIBLE_DEVICES asks for no GPU",
        symptom="no /dev/nvidia0 in the container; CUDA 100",
        cause="NVIDIA_VISIBLE_DEVICES is empty, `void` or `none`, by the image, the command or the pod",
        detect="NVIDIA_VISIBLE_DEVICES, and no GPU node is here",
        fix={
            "*": "Set NVIDIA_VISIBLE_DEVICES=all (it is `{value}`) and start the container again.",
            "docker": "Start with `docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all`: it is `{value}` now.",
            "jetson-docker": (
                "Start with `docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=all`: it is `{value}` now."
            ),
            "kubernetes": (
                "Request `nvidia.com/gpu: 1` in the pod's resource limits and take NVIDIA_VISIBLE_DEVICES "
                "(`{value}`) out of pod and image: the device plugin sets it."
            ),
            "rootless": (
                "Set NVIDIA_VISIBLE_DEVICES=all (it is `{value}`) or give the GPU by CDI (`--device "
                "nvidia.com/gpu=all`)."
            ),
        },
        source="NVIDIA container toolkit, specialized configurations",
    ),
    Code(
        id="GS116",
        layer="device-nodes",
        title="No GPU node, only the control node",
        symptom="/dev/nvidiactl is there, /dev/nvidia0 is not; CUDA 100, NVML counts 0",
        cause=(
            "only a part of the nodes was given (`--device /dev/nvidiactl`), or the driver has no GPU: it "
            "fell off the bus, or another driver has it"
        ),
        detect="nodes in /dev",
        fix=by_host(
            ("`nvidia-smi -L`, `lspci -d 10de:` and the kernel log for Xid 79; then `nvidia-modprobe -c=0 -u`."),
            docker=(
                "Give the GPU with `--gpus all` and not with single `--device` options; if the host lists "
                "none either (`nvidia-smi -L`), read its kernel log for Xid 79."
            ),
            jetson_docker="Give the GPU with `--runtime nvidia` and not with single `--device` options.",
            podman=(
                "Give the GPU with `--device nvidia.com/gpu=all`; if the host lists none either (`nvidia-smi "
                "-L`), read its kernel log for Xid 79."
            ),
            apptainer=(
                "Start it with `--nv`; if the host lists none either (`nvidia-smi -L`), its administrator "
                "reads the kernel log for Xid 79."
            ),
            kubernetes=(
                "Request `nvidia.com/gpu: 1` in the pod's limits; if it did ask, start it on another node, "
                "and the cluster's administrator reads this node's kernel log for Xid 79."
            ),
        ),
        apart={
            "*": ("`nvidia-smi -L` on the host: GPUs listed, the container got a part; none listed, the GPU is gone"),
            "kubernetes": (
                "`kubectl describe node | grep -A9 Allocatable`: fewer nvidia.com/gpu than the node has, the "
                "GPU is gone; else the pod got a part"
            ),
        },
        source="NVIDIA driver README, device nodes",
    ),
    Code(
        id="GS117",
        layer="device-nodes",
        severity="warning",
        title="The Slurm job holds no GPU",
        symptom="no device, `Operation not permitted` on /dev/nvidia*, or CUDA 100, on a node that has GPUs",
        cause="the job was submitted without `--gres` or `--gpus`",
        detect="SLURM_JOB_ID is set, no variable of Slurm names a GPU",
        fix=("Submit with `--gres=gpu:1` (or `--gpus=1`); inside an allocation give `srun` the same option."),
        source="Slurm, generic resource scheduling",
    ),
    Code(
        id="GS118",
        layer="device-nodes",
        severity="warning",
        title="gVisor does not pass the GPU on",
        symptom="no /dev/nvidia*, or cuInit fails, in a sandbox of gVisor",
        cause="runsc runs without nvproxy, or nvproxy does not know the host's driver version",
        detect="the kernel is gVisor's; no GPU node, or cuInit gives 100, 304, 801 or 999",
        fix={
            "*": (
                "Run runsc with `--nvproxy`; `runsc nvproxy list-supported-drivers` names the drivers that it takes."
            ),
            "kubernetes": (
                "Take the sandbox's `runtimeClassName` out of the pod; or the cluster's administrator lets "
                'runsc run with `nvproxy = "true"` and a driver of `runsc nvproxy list-supported-drivers`.'
            ),
            "gke": (
                "Use a GKE version that offers GPUs in GKE Sandbox, on a node pool with a GPU, or run without"
                " the sandbox."
            ),
        },
        apart=(
            "`runsc nvproxy list-supported-drivers` against the host's driver version: not in the list, the "
            "version is the cause"
        ),
        source="gVisor, GPU support",
    ),
    Code(
        id="GS119",
        layer="device-nodes",
        severity="warning",
        title="The machine has an NVIDIA GPU without NVIDIA's driver",
        symptom="no /dev/nvidia*, lspci shows the card",
        cause=("the driver is not installed or not loaded, or the card was given to a virtual machine (vfio-pci)"),
        detect="PCI devices of NVIDIA in /sys, no NVIDIA kernel module",
        fix=by_host(
            (
                "install and load NVIDIA's driver (`modprobe nvidia`, `dmesg | grep -i nvrm`); unbind {value}"
                " from vfio-pci if it is bound there and no virtual machine uses it."
            ),
            any=(
                "Install and load NVIDIA's driver (`modprobe nvidia`, `dmesg | grep -i nvrm`); unbind {value}"
                " from vfio-pci if it is bound there and no virtual machine uses it."
            ),
        ),
        apart={
            "*": (
                "`lspci -nnk -d 10de:`: `Kernel driver in use: vfio-pci` is a card of a virtual machine; no "
                "line, no driver"
            ),
            "jetson": (
                "`ls -l /sys/bus/pci/devices/*/driver`: vfio-pci is a card of a virtual machine; no link, no driver"
            ),
        },
        source="NVIDIA driver README",
    ),
    Code(
        id="GS120",
        layer="device-nodes",
        title="MIG is on, its capability nodes are not here",
        symptom="cuInit gives 3 or 100, nvidia-smi lists the GPU and its instances",
        cause="the nodes of the MIG instances under /dev/nvidia-caps were not given to the container",
        detect="MIG mode is on, /dev/nvidia-caps lacks {value}",
        fix=by_host(
            (
                "make the nodes in /dev/nvidia-caps (`nvidia-modprobe -f <the instance's access file>`), or "
                "recreate the instances."
            ),
            any="Make the nodes in /dev/nvidia-caps (`nvidia-modprobe -f <the instance's access file>`).",
            docker=(
                "Give the instance by its UUID (`--gpus '\"device=MIG-<uuid>\"'` or CDI), so that its nodes in "
                "/dev/nvidia-caps are mounted."
            ),
            jetson_docker=(
                "Give the instance by CDI (`--device nvidia.com/gpu=MIG-<uuid>`), so that its nodes in "
                "/dev/nvidia-caps are mounted."
            ),
            container=(
                "Give the instance by CDI (`nvidia.com/gpu=MIG-<uuid>`), so that its nodes in "
                "/dev/nvidia-caps are mounted."
            ),
            apptainer="Start it with `--nv` and without `--contain`, so that /dev/nvidia-caps is there.",
            kubernetes=(
                "Request the MIG resource (such as `nvidia.com/mig-1g.10gb: 1`) from a device plugin with "
                "`MIG_STRATEGY`, so that the nodes in /dev/nvidia-caps are mounted."
            ),
            slurm=(
                "Ask Slurm for the instance (such as `--gres=gpu:1g.10gb:1`): its device rules give a job only its own."
            ),
        ),
        source="NVIDIA MIG user guide, device nodes and capabilities",
    ),
    Code(
        id="GS121",
        layer="driver-init",
        severity="warning",
        title="CUDA lists fewer GPUs than the machine has",
        symptom="seven of eight GPUs work, and nothing says so",
        cause=("a GPU failed or fell off the bus; rarer: its node, or a cgroup, is withheld from this process"),
        detect=(
            "the counts of open nodes, of NVML and of CUDA, where neither CUDA_VISIBLE_DEVICES nor MIG explains them"
        ),
        fix=by_host(
            (
                "look up the missing GPU with `nvidia-smi -L` and in the kernel log (Xid 79); reset it or "
                "reboot: {value} of {most} are usable."
            ),
            any=(
                "Look up the missing GPU with `nvidia-smi -L` and in the kernel log (Xid 79); reset it or "
                "reboot: {value} of {most} are usable."
            ),
        ),
        apart=(
            "`nvidia-smi -L; dmesg | grep -i xid` on the host: an Xid for its bus address, the GPU failed; "
            "none, it is withheld"
        ),
        source="NVIDIA/k8s-device-plugin#2038",
    ),
    Code(
        id="GS122",
        layer="driver-init",
        severity="info",
        title="Starting the GPU was slow",
        symptom="the first GPU program after a pause waits for seconds",
        cause=(
            "persistence mode is off: the GPU stops with its last user and starts anew with the next; rarer: "
            "a GPU that recovers from errors"
        ),
        detect="time of open() of the GPU's node and of cuInit; NVML's persistence mode",
        fix=by_host(
            "`systemctl enable --now nvidia-persistenced` (or `nvidia-smi -pm 1`); it took {value}.",
            kubernetes=(
                "The cluster's administrator: `systemctl enable --now nvidia-persistenced` on the node, or "
                "the GPU operator's driver with persistence; it took {value}."
            ),
            slurm=(
                "Hold the GPU open during the job (`nvidia-smi -l 60 &`); the site's administrators: "
                "`systemctl enable --now nvidia-persistenced`; it took {value}."
            ),
            wsl="Nothing to do: Windows starts the GPU; it took {value}.",
            jetson=(
                "Nothing to do: the Jetson's GPU sleeps when idle (`jetson_clocks` keeps it awake); it took {value}."
            ),
        ),
        apart=("`nvidia-smi -q | grep -i persistence`: Disabled, it is this; Enabled, read `dmesg | grep -i xid`"),
        source="NVIDIA, driver persistence",
    ),
]
