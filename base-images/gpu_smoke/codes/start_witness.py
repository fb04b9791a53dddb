"""Findings of the driver's start that another witness explains: GS317 and above."""

from __future__ import annotations

from . import Code

CODES = [
    Code(
        id="GS317",
        layer="driver-init",
        title="The process may not use enough addresses",
        symptom="cuInit gives 2, 304 or 999, or libcuda cannot be mapped",
        cause=("the address space is limited (`ulimit -v`, RLIMIT_AS): CUDA reserves far more addresses than memory"),
        detect="RLIMIT_AS of this process is {value}",
        fix={
            "*": "Run with `ulimit -v unlimited`: it is {value}; limit memory by cgroups instead.",
            "slurm": (
                "Take the limit on virtual memory off (`--propagate=NONE`, VSizeFactor=0 in slurm.conf): it is {value}."
            ),
        },
        source="getrlimit(2); NVIDIA CUDA programming guide, unified virtual addressing",
    ),
    Code(
        id="GS318",
        layer="driver-init",
        title="No MPS daemon answers",
        symptom="cuInit or the first call gives 805, 806, 807 or 810",
        cause=("CUDA is told to use MPS and its daemon is not running; rarer: this container cannot reach its pipe"),
        detect="the code, CUDA_MPS_PIPE_DIRECTORY and the pipe there",
        fix={
            "*": (
                "Start it on the host: `nvidia-cuda-mps-control -d`; without MPS: unset CUDA_MPS_PIPE_DIRECTORY "
                "(pipe folder {folder})."
            ),
            "container": (
                "Start `nvidia-cuda-mps-control -d` on the host, mount {folder} and share IPC (`--ipc=host`); "
                "without MPS: unset CUDA_MPS_PIPE_DIRECTORY."
            ),
            "kubernetes": (
                "Check the device plugin's MPS daemon on the node (`kubectl get pods -A | grep mps`) and that "
                "{folder} is mounted; without MPS: unset CUDA_MPS_PIPE_DIRECTORY."
            ),
        },
        apart=(
            "`echo get_server_list | nvidia-cuda-mps-control` on the host: no answer, the daemon is gone; a "
            "list, the container cannot reach it"
        ),
        source="NVIDIA, Multi-Process Service",
    ),
    Code(
        id="GS319",
        layer="driver-init",
        title="The MPS server has no place left",
        symptom="cuInit or the first call gives 808 or 809",
        cause="the MPS server has as many clients or connections as it can take",
        detect="the code",
        fix={
            "*": "End clients of the MPS server (`nvidia-smi`), or use another GPU; pipe folder {folder}.",
        },
        source="NVIDIA, Multi-Process Service",
    ),
    Code(
        id="GS320",
        layer="driver-init",
        title="Confidential computing: the GPUs are not released",
        symptom="CUDA error 802 on an H100 or newer in confidential computing mode",
        cause="the GPU was not attested and set to the ready state",
        detect="cuInit gives 802, NVML says that confidential computing is on and the GPUs take no work",
        fix={
            "*": "Attest the GPU, then `nvidia-smi conf-compute -srs 1` in the confidential machine.",
        },
        apart="`nvidia-smi conf-compute -grs`: `not ready` is this; `ready`, look at Fabric Manager",
        source="NVIDIA, Confidential Computing deployment guide",
    ),
    Code(
        id="GS321",
        layer="driver-init",
        title="The NVLink fabric is not ready",
        symptom="CUDA error 802 or 919 for minutes after a start",
        cause="Fabric Manager is still training the links, or it failed",
        detect="NVML's fabric state of the GPU is in progress, or completed with an error",
        fix={
            "*": ("Wait and look again; if it stays: `systemctl status nvidia-fabricmanager` and its log on the host."),
        },
        apart=(
            "`nvidia-smi -q | grep -A2 Fabric`: `In Progress` passes, `Completed` with another status than "
            "Success does not"
        ),
        source="NVIDIA, Fabric Manager user guide",
    ),
    Code(
        id="GS323",
        layer="driver-init",
        title="The GPU's compute mode forbids CUDA",
        symptom="cuInit or the first context gives 46, 100, 101 or 999; nvidia-smi works",
        cause="somebody set the compute mode to PROHIBITED",
        detect="NVML's compute mode of the GPU is 2 (prohibited)",
        fix={
            "*": "On the host: `nvidia-smi -c 0` (default mode).",
            "kubernetes": "On the node: `nvidia-smi -c 0` (default mode).",
        },
        source="NVML API reference, nvmlComputeMode_t",
    ),
    Code(
        id="GS324",
        layer="driver-init",
        title="The virtual GPU has no licence",
        symptom="CUDA error 102",
        cause="the vGPU's licence server did not answer",
        detect="cuInit or a device call gives 102",
        fix="Check `nvidia-smi -q | grep -i license` and the licence server in /etc/nvidia/gridd.conf.",
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS325",
        layer="driver-init",
        title="The driver was told to leave this GPU out",
        symptom="lspci lists the GPU, nvidia-smi and CUDA do not",
        cause="the module's option NVreg_ExcludedGpus names it, or it was excluded for a fault",
        detect="/proc/driver/nvidia/gpus/*/information says `GPU Excluded: Yes`",
        fix="Take {value} out of NVreg_ExcludedGpus in /etc/modprobe.d on the host and reload the module.",
        source="NVIDIA driver README, excluding GPUs",
    ),
    Code(
        id="GS326",
        layer="kernels",
        title="The MPS memory limit of this process is used up",
        symptom="CUDA error 2 though the GPU has memory left",
        cause="CUDA_MPS_PINNED_DEVICE_MEM_LIMIT allows this client less than it needs",
        detect="an allocation gives 2, and the variable is set",
        fix="Raise CUDA_MPS_PINNED_DEVICE_MEM_LIMIT (it is {value}), or unset it.",
        apart="the same with the variable unset: works, it was the limit; fails, others hold the memory (`nvidia-smi`)",
        source="NVIDIA, Multi-Process Service",
    ),
    Code(
        id="GS327",
        layer="driver-init",
        title="The MPS server ended this client",
        symptom="CUDA error 810, in several programs at once",
        cause="another client of the MPS server made a fault on the GPU: the server ends all of them; rarer: by hand",
        detect="a call gives 810, and the daemon's pipe is there",
        fix=(
            "Run again; if it comes back, look up in server.log (CUDA_MPS_LOG_DIRECTORY, else /var/log/nvidia-mps) "
            "which client failed first and repair or separate that one; pipe folder {folder}."
        ),
        apart="`dmesg | grep -i xid` on the host: an Xid with another program's number, it was that one; none, by hand",
        source="NVIDIA, Multi-Process Service",
    ),
]
