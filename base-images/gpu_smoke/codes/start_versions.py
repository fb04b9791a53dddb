"""Findings of the driver's start: versions that do not fit, and codes without a story of their own."""

from __future__ import annotations

from ..hands import by_driver, by_host, by_packages
from . import Code

CODES = [
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
        fix=by_host(
            "reboot, or reload the module.",
            any="Reboot the host or reload the module.",
            container=(
                "Recreate the container; if it stays, reboot the host, and remove any libcuda copied into the"
                " image ({path})."
            ),
            apptainer=(
                "Start again with `--nv`, and remove any libcuda copied into the image ({path}); if it stays,"
                " the host's administrator reboots it."
            ),
            kubernetes=(
                "Delete the pod, and remove any libcuda copied into the image ({path}); if it stays, start it"
                " on another node, and the cluster's administrator reboots this one after a drain (GPU "
                "operator: restart its driver pod)."
            ),
        ),
        apart={
            "*": (
                "`cat /proc/driver/nvidia/version` against `modinfo -F version nvidia`: different, it was "
                "upgraded and not reloaded; equal, {path} is a stale copy"
            ),
            "container": (
                "`cat /proc/driver/nvidia/version` against `ls -l` of {path}: after a restart of the "
                "container still different, a copy lies in the image"
            ),
            "kubernetes": (
                "`cat /proc/driver/nvidia/version` against `ls -l` of {path}: in a new pod still different, a"
                " copy lies in the image"
            ),
            "wsl": "`ls -l` of {path}: not in /usr/lib/wsl, a Linux driver was installed",
        },
        source="NVIDIA/nvidia-docker#365; NVIDIA/nvidia-container-toolkit#394",
    ),
    Code(
        id="GS311",
        layer="driver-init",
        title="cuda-compat does not support this GPU",
        symptom="CUDA error 804",
        cause="forward compatibility runs on data-centre GPUs (and some others) only",
        detect="cuInit gives 804",
        fix=by_driver(
            "",
            "take {folder} out of the loader's path and use an older CUDA image",
            any=("Take {folder} out of the loader's path, and update the host driver or use an older CUDA image."),
        ),
        source="NVIDIA/nvidia-docker#1515, #1294",
    ),
    Code(
        id="GS312",
        layer="driver-init",
        title="Unknown error at the driver's start",
        symptom="CUDA error 999",
        cause="nvidia-uvm lost its state (suspend and resume), or a device node is wrong",
        detect="cuInit gives 999 and /dev/nvidia-uvm exists",
        fix=by_host(
            (
                "stop the GPU's users, `rmmod nvidia_uvm; modprobe nvidia_uvm`, then `nvidia-modprobe -u "
                "-c=0`; reboot if it stays."
            ),
            apptainer=(
                "The host's administrator, when nothing uses the GPUs: `rmmod nvidia_uvm; modprobe "
                "nvidia_uvm`; reboot if it stays."
            ),
            kubernetes=(
                "Delete the pod; if it stays, start it on another node, and the cluster's administrator "
                "reboots this one after a drain."
            ),
            slurm=(
                "Submit again with `--exclude={node}`; the site's administrators, when no job runs there: "
                "reload nvidia_uvm or reboot."
            ),
            wsl=(
                "Update the NVIDIA driver in Windows, then `wsl --update` and `wsl --shutdown`; install no "
                "Linux driver inside WSL."
            ),
        ),
        apart=(
            "`dmesg | grep -iE 'xid|nvrm|uvm'` on the host: lines of uvm or after a resume, reload the "
            "module; an Xid, it is the GPU"
        ),
        source="pytorch/pytorch#49081",
    ),
    Code(
        id="GS315",
        layer="driver-init",
        title="The driver's start failed",
        symptom="cuInit gives the code shown",
        cause="see the code's text in CUDA's documentation",
        detect="any other code of cuInit, cuDeviceGetCount or cuDeviceGet",
        fix={
            "*": "Look up {name} ({value}) in CUDA's error list and read the kernel log.",
            "kubernetes": (
                "Look up {name} ({value}) in CUDA's error list; start the pod on another node: works there, "
                "tell the cluster's administrator."
            ),
            "slurm": (
                "Look up {name} ({value}) in CUDA's error list; submit again with `--exclude={node}`: works "
                "there, tell the site's administrators."
            ),
        },
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS316",
        layer="driver-init",
        title="The driver's answers make no sense",
        symptom="negative or huge counts and versions",
        cause="a broken or foreign libcuda",
        detect="bounds on the number of devices and on the version",
        fix=by_packages("Replace {path} with the driver's own library."),
        source="fuzzing in tests/gpu_smoke",
    ),
]
