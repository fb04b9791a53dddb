"""Findings of the driver's start: GS301 to GS316."""

from __future__ import annotations

from ..hands import EXCLUSIVE, by_host
from . import Code

CODES = [
    Code(
        id="GS301",
        layer="driver-init",
        title="MIG is on, but there are no instances",
        symptom="cuInit gives 3 (not initialized) or 100",
        cause="the GPU is in MIG mode and nobody created GPU instances",
        detect="cuInit gives 3, NVML says MIG mode is on",
        fix=by_host(
            ("create instances with `nvidia-smi mig -cgi <profile> -C`, or turn MIG off with `nvidia-smi -mig 0`."),
            any=("Create instances with `nvidia-smi mig -cgi <profile> -C`, or turn MIG off with `nvidia-smi -mig 0`."),
            kubernetes=(
                "Start the pod on another node; the cluster's administrator sets this node's MIG "
                "configuration label (`nvidia.com/mig.config`), so that the MIG manager creates instances."
            ),
            slurm=(
                "Ask Slurm for an instance (such as `--gres=gpu:1g.10gb:1`) or for another node "
                "(`--exclude={node}`); the site's administrators create instances (`nvidia-smi mig -cgi "
                "<profile> -C`)."
            ),
        ),
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS302",
        layer="driver-init",
        title="CUDA is not initialised",
        symptom="CUDA error 3 though a GPU is there",
        cause="the process was forked after CUDA had been initialised, or the driver is shutting down",
        detect="cuInit gives 3 and MIG is off",
        fix="Start workers with the `spawn` method, and touch the GPU only in the worker.",
        apart=(
            "a first call in a fresh process that works: it was the fork; that fails too: the driver is going"
            " down or MIG has no instances (`nvidia-smi -L`)"
        ),
        source="vllm-project/vllm#32611; pytorch/pytorch#83973",
    ),
    Code(
        id="GS303",
        layer="driver-init",
        title="The operating system refused a call",
        symptom="CUDA error 304",
        cause="seccomp, the device cgroup or a missing device node",
        detect="cuInit gives 304",
        fix={
            "*": (
                "Check the device nodes, the kernel log, and what confines this process (systemd's "
                "SystemCallFilter, AppArmor, SELinux)."
            ),
            "docker": "Give the GPU with `--gpus all`; check the seccomp profile and the `--device` rules.",
            "jetson-docker": "Give the GPU with `--runtime nvidia`; check the seccomp profile.",
            "podman": "Give the GPU with `--device nvidia.com/gpu=all`; check the seccomp profile.",
            "kubernetes": (
                "Request the GPU and mount no nodes by hand; run once with the pod's "
                "`securityContext.seccompProfile` of type Unconfined: if it works, allow the refused call in "
                "a Localhost profile."
            ),
            "slurm": (
                "Ask Slurm for the GPU (`--gres=gpu:1`); if the job has it, submit again with "
                "`--exclude={node}` and tell the site's administrators."
            ),
        },
        apart={
            "*": "`strace -f` shows the refused call; `dmesg | grep -iE 'audit|apparmor'` who refused it",
            "docker": (
                "run once with `--security-opt seccomp=unconfined`: works, it was seccomp; `strace -f` shows "
                "the refused call otherwise"
            ),
            "podman": (
                "run once with `--security-opt seccomp=unconfined`: works, it was seccomp; `strace -f` shows "
                "the refused call otherwise"
            ),
            "kubernetes": (
                "run once with `securityContext.seccompProfile.type: Unconfined`: works, it was seccomp; else the nodes"
            ),
            "wsl": (
                "`nvidia-smi.exe` in Windows: works there, it is WSL's side (`wsl --update`); fails, it is "
                "the Windows driver"
            ),
            "slurm": "`srun --gres=gpu:1` of the same command: works, the step had no GPU",
        },
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS304",
        layer="driver-init",
        title="CUDA_VISIBLE_DEVICES hides every GPU",
        symptom="CUDA error 100, or zero devices",
        cause="the variable is empty or its first entry is -1",
        detect="cuInit gives 100 or there are zero devices, and the mask names none",
        fix={
            "*": "Unset CUDA_VISIBLE_DEVICES (it is {value!r}).",
            "kubernetes": "Take CUDA_VISIBLE_DEVICES (it is {value!r}) out of the pod's `env` and the image.",
            "slurm": (
                "Give the step its GPUs (`srun --gres=gpu:1`) and set CUDA_VISIBLE_DEVICES (it is {value!r}) "
                "nowhere yourself: Slurm does; without it this process could take other jobs' GPUs."
            ),
        },
        source="CUDA programming guide, environment variables; MakazhanAlpamys/Soup#1128",
    ),
    Code(
        id="GS305",
        layer="driver-init",
        title="CUDA_VISIBLE_DEVICES names a GPU twice, or one that is not here",
        symptom="CUDA error 100 or 101, or fewer devices than expected",
        cause="an index or UUID of the mask does not exist (what follows is hidden), or appears twice (all is hidden)",
        detect="compare the mask with the GPUs that NVML lists",
        fix={
            "*": "Name each GPU once in CUDA_VISIBLE_DEVICES, and only GPUs that exist: {entry!r} {problem} ({have}).",
            "kubernetes": (
                "Take CUDA_VISIBLE_DEVICES out of the pod's `env` and the image, or name GPUs of this pod, "
                "which count from 0: {entry!r} {problem} ({have})."
            ),
            "slurm": (
                "Leave CUDA_VISIBLE_DEVICES to Slurm (`srun --gres=gpu:N`), or name GPUs of this job, which "
                "count from 0 where Slurm shows it only its own: {entry!r} {problem} ({have})."
            ),
        },
        source="CUDA programming guide, environment variables",
    ),
    Code(
        id="GS306",
        layer="driver-init",
        title="The driver sees no GPU",
        symptom="CUDA error 100",
        cause="no GPU was granted, or the granted one fell off the bus",
        detect="cuInit gives 100 and the mask is not the reason",
        fix={
            "*": "Check `nvidia-smi -L` and the kernel log for Xid 79.",
            "docker": "Start with `docker run --gpus all`; check NVIDIA_VISIBLE_DEVICES.",
            "jetson-docker": "Start with `docker run --runtime nvidia`.",
            "podman": "Start with `podman run --device nvidia.com/gpu=all`.",
            "apptainer": "Start with `apptainer run --nv`; check `nvidia-smi -L` on the host.",
            "kubernetes": "Request `nvidia.com/gpu: 1` in the pod's limits; check the node's device plugin.",
            "wsl": (
                "Update the NVIDIA driver in Windows, then `wsl --update` and `wsl --shutdown`; install no "
                "Linux driver inside WSL."
            ),
            "jetson": "Restart the Jetson; if it stays, reinstall JetPack's driver (the packages nvidia-l4t-*).",
            "slurm": (
                "Ask Slurm for a GPU (`--gres=gpu:1`); if the job has one, submit again with "
                "`--exclude={node}` and tell the site's administrators."
            ),
        },
        apart=(
            "`nvidia-smi -L` here and on the host: listed on the host alone, it was not given; nowhere, read "
            "`dmesg | grep -i xid`"
        ),
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS307",
        layer="driver-init",
        title="The mask does not fit MIG",
        symptom="CUDA error 100, zero devices, or an internal assert of the framework",
        cause="a process sees one MIG instance only, and needs its MIG UUID",
        detect="MIG mode is on and the mask lists several instances, an index or a GPU UUID",
        fix="Set `CUDA_VISIBLE_DEVICES=MIG-<uuid>` with one UUID of `nvidia-smi -L`.",
        source="pytorch/pytorch#130181, #131650",
    ),
    Code(
        id="GS308",
        layer="driver-init",
        title="Fabric Manager is not running",
        symptom="CUDA error 802 (system not ready)",
        cause="a host with NVSwitch needs nvidia-fabricmanager of the driver's version",
        detect="cuInit gives 802",
        fix=by_host(
            ("install nvidia-fabricmanager of the driver's exact version and `systemctl start nvidia-fabricmanager`."),
            kubernetes=(
                "Start the pod on another node; the cluster's administrator starts nvidia-fabricmanager of "
                "the driver's exact version on this one (GPU operator: it runs in the driver pod, restart "
                "that)."
            ),
        ),
        source="pytorch/pytorch#35710; huggingface/huggingface_hub#4134",
    ),
    Code(
        id="GS313",
        layer="driver-init",
        title="The GPU is held by another process",
        symptom="CUDA error 46 (devices unavailable)",
        cause="compute mode is exclusive or prohibited",
        detect="cuInit, the device count or creating a context gives 46",
        fix=EXCLUSIVE,
        apart="`nvidia-smi -q -d COMPUTE,PIDS`: the mode, and who holds the GPU",
        source="NVIDIA/nvidia-docker#572",
    ),
    Code(
        id="GS314",
        layer="driver-init",
        title="Invalid device",
        symptom="CUDA error 101",
        cause="a device number that does not exist, usually from a wrong mask",
        detect="cuInit or cuDeviceGet gives 101",
        fix={
            "*": "Unset CUDA_VISIBLE_DEVICES, or set it to GPUs that `nvidia-smi -L` lists.",
            "kubernetes": "Take CUDA_VISIBLE_DEVICES out of the pod's `env` and the image.",
            "slurm": "Leave CUDA_VISIBLE_DEVICES to Slurm (`srun --gres=gpu:1`), and use device numbers from 0.",
        },
        source="CUDA driver API, CUresult",
    ),
]
