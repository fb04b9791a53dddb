"""Findings of the driver's start: GS301 to GS316."""

from __future__ import annotations

from . import Code

CODES = [
    Code(
        id="GS301",
        layer="driver-init",
        title="MIG is on, but there are no instances",
        symptom="cuInit gives 3 (not initialized) or 100",
        cause="the GPU is in MIG mode and nobody created GPU instances",
        detect="cuInit gives 3, NVML says MIG mode is on",
        fix={
            "*": (
                "Create instances with `nvidia-smi mig -cgi <profile> -C`, or turn MIG off with `nvidia-smi -mig 0`."
            ),
            "kubernetes": "Set the node's MIG configuration label, so that the MIG manager creates instances.",
        },
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
            "*": "Check the device nodes and the kernel log.",
            "docker": "Give the GPU with `--gpus all`; check the seccomp profile and the `--device` rules.",
            "podman": "Give the GPU with `--device nvidia.com/gpu=all`; check the seccomp profile.",
        },
        apart=(
            "run once with `--security-opt seccomp=unconfined`: works, it was seccomp; `strace -f` shows the "
            "refused call otherwise"
        ),
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS304",
        layer="driver-init",
        title="CUDA_VISIBLE_DEVICES hides every GPU",
        symptom="CUDA error 100, or zero devices",
        cause="the variable is empty or its first entry is -1",
        detect="cuInit gives 100 or there are zero devices, and the mask names none",
        fix="Unset CUDA_VISIBLE_DEVICES (it is {value!r}).",
        source="CUDA programming guide, environment variables; MakazhanAlpamys/Soup#1128",
    ),
    Code(
        id="GS305",
        layer="driver-init",
        title="CUDA_VISIBLE_DEVICES names a GPU that is not here",
        symptom="CUDA error 100 or 101, or fewer devices than expected",
        cause="an index or UUID of the mask does not exist: what follows it is hidden",
        detect="compare the mask with the GPUs that NVML lists",
        fix="Set CUDA_VISIBLE_DEVICES to GPUs that exist: {entry!r} does not ({have}).",
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
            "kubernetes": "Request `nvidia.com/gpu: 1` in the pod's limits; check the node's device plugin.",
            "wsl": (
                "Update the NVIDIA driver in Windows, then `wsl --update` and `wsl --shutdown`; install no Linux "
                "driver inside WSL."
            ),
            "slurm": (
                "Ask Slurm for a GPU (`--gres=gpu:1`); if the job has one, check `nvidia-smi -L` on the node and "
                "its kernel log for Xid 79."
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
        fix=(
            "On the host: install nvidia-fabricmanager of the driver's exact version and `systemctl start "
            "nvidia-fabricmanager`."
        ),
        source="pytorch/pytorch#35710; huggingface/huggingface_hub#4134",
    ),
    Code(
        id="GS309",
        layer="driver-init",
        title="The image's cuda-compat is older than the host's driver",
        symptom="CUDA error 803 (driver and library mismatch)",
        cause="a compat folder on the loader's path puts an old libcuda before the host's",
        detect=("cuInit gives 803, libcuda comes from a compat folder or its version is below the kernel module's"),
        fix=("Take {folder} out of LD_LIBRARY_PATH and ld.so.conf: use compat only where the host is older."),
        source="vllm-project/vllm#34821, #32474; VIAME/VIAME#273",
    ),
    Code(
        id="GS310",
        layer="driver-init",
        title="libcuda and the kernel module do not match",
        symptom="CUDA error 803, NVML version mismatch",
        cause=(
            "the host's driver was upgraded and the old module still runs, or a stale libcuda was copied into the image"
        ),
        detect="cuInit gives 803 and no compat folder is involved",
        fix={
            "*": "Reboot the host or reload the module.",
            "container": (
                "Recreate the container; if it stays, reboot the host, and remove any libcuda copied into the "
                "image ({path})."
            ),
        },
        apart=(
            "`cat /proc/driver/nvidia/version` against `ls -l` of {path}: after a restart of the container "
            "still different, a copy lies in the image"
        ),
        source="NVIDIA/nvidia-docker#365; NVIDIA/nvidia-container-toolkit#394",
    ),
    Code(
        id="GS311",
        layer="driver-init",
        title="cuda-compat does not support this GPU",
        symptom="CUDA error 804",
        cause="forward compatibility runs on data-centre GPUs (and some others) only",
        detect="cuInit gives 804",
        fix=("Take {folder} out of the loader's path, and update the host driver or use an older CUDA image."),
        source="NVIDIA/nvidia-docker#1515, #1294",
    ),
    Code(
        id="GS312",
        layer="driver-init",
        title="Unknown error at the driver's start",
        symptom="CUDA error 999",
        cause="nvidia-uvm lost its state (suspend and resume), or a device node is wrong",
        detect="cuInit gives 999 and /dev/nvidia-uvm exists",
        fix={
            "*": (
                "On the host: `rmmod nvidia_uvm; modprobe nvidia_uvm`, then `nvidia-modprobe -u -c=0`; reboot if "
                "it stays."
            ),
            "wsl": (
                "Update the NVIDIA driver in Windows, then `wsl --update` and `wsl --shutdown`; install no Linux "
                "driver inside WSL."
            ),
        },
        apart=(
            "`dmesg | grep -iE 'xid|nvrm|uvm'` on the host: lines of uvm or after a resume, reload the "
            "module; an Xid, it is the GPU"
        ),
        source="pytorch/pytorch#49081",
    ),
    Code(
        id="GS313",
        layer="driver-init",
        title="The GPU is held by another process",
        symptom="CUDA error 46 (devices unavailable)",
        cause="compute mode is exclusive or prohibited",
        detect="cuInit, the device count or creating a context gives 46",
        fix="Free the GPU, or set the default compute mode on the host: `nvidia-smi -c 0`.",
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
        fix="Unset CUDA_VISIBLE_DEVICES, or set it to GPUs that `nvidia-smi -L` lists.",
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS315",
        layer="driver-init",
        title="The driver's start failed",
        symptom="cuInit gives the code shown",
        cause="see the code's text in CUDA's documentation",
        detect="any other code of cuInit, cuDeviceGetCount or cuDeviceGet",
        fix="Look up {name} ({value}) in CUDA's error list and read the kernel log.",
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS316",
        layer="driver-init",
        title="The driver's answers make no sense",
        symptom="negative or huge counts and versions",
        cause="a broken or foreign libcuda",
        detect="bounds on the number of devices and on the version",
        fix="Replace {path} with the driver's own library.",
        source="fuzzing in tests/gpu_smoke",
    ),
]
