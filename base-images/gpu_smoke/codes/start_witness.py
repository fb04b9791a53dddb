"""Findings of the driver's start that another witness explains: GS317 and above."""

from __future__ import annotations

from ..hands import by_host
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
            "kubernetes": (
                "Run with `ulimit -v unlimited` (it is {value}); limit memory by `resources.limits.memory` instead."
            ),
            "slurm": (
                "Take the limit on virtual memory off (`--propagate=NONE`; the site's administrators: "
                "VSizeFactor=0 in slurm.conf): it is {value}."
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
                "Start it on the host: `nvidia-cuda-mps-control -d`; without MPS: unset "
                "CUDA_MPS_PIPE_DIRECTORY (pipe folder {folder})."
            ),
            "container": (
                "Start `nvidia-cuda-mps-control -d` on the host, mount {folder} and share IPC with the host; "
                "without MPS: unset CUDA_MPS_PIPE_DIRECTORY."
            ),
            "docker": (
                "Start `nvidia-cuda-mps-control -d` on the host, mount {folder} and share IPC (`--ipc=host`);"
                " without MPS: unset CUDA_MPS_PIPE_DIRECTORY."
            ),
            "podman": (
                "Start `nvidia-cuda-mps-control -d` on the host, mount {folder} and share IPC (`--ipc=host`);"
                " without MPS: unset CUDA_MPS_PIPE_DIRECTORY."
            ),
            "apptainer": (
                "Start `nvidia-cuda-mps-control -d` on the host and bind {folder}; without MPS: unset "
                "CUDA_MPS_PIPE_DIRECTORY."
            ),
            "slurm": (
                "Start `nvidia-cuda-mps-control -d` in the job's script, or ask for `--gres=mps`; without "
                "MPS: unset CUDA_MPS_PIPE_DIRECTORY (pipe folder {folder})."
            ),
            "kubernetes": (
                "Check the device plugin's MPS daemon on the node (`kubectl get pods -A | grep mps`) and that"
                " {folder} is mounted; without MPS: unset CUDA_MPS_PIPE_DIRECTORY."
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
            "*": (
                "End clients of your own at the MPS server (`nvidia-smi` lists them), or use another GPU; "
                "pipe folder {folder}."
            ),
            "kubernetes": "Start the pod on another node or with fewer pods on a GPU; pipe folder {folder}.",
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
        fix=by_host(
            "attest the GPU, then `nvidia-smi conf-compute -srs 1` in the confidential machine.",
            any="Attest the GPU, then `nvidia-smi conf-compute -srs 1` in the confidential machine.",
        ),
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
        fix=by_host(
            "`systemctl status nvidia-fabricmanager` and its log.",
            any=("Wait and look again; if it stays: `systemctl status nvidia-fabricmanager` and its log on the host."),
            kubernetes=(
                "Wait and look again; if it stays, start the pod on another node, and the cluster's "
                "administrator reads nvidia-fabricmanager's log (GPU operator: in the driver pod)."
            ),
        ),
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
        fix=by_host("`nvidia-smi -c 0` (default mode), if nobody set it on purpose."),
        source="NVML API reference, nvmlComputeMode_t",
    ),
    Code(
        id="GS324",
        layer="driver-init",
        title="The virtual GPU has no licence",
        symptom="CUDA error 102",
        cause="the vGPU's licence server did not answer",
        detect="cuInit or a device call gives 102",
        fix=by_host(
            "`nvidia-smi -q | grep -i license` and the licence server in /etc/nvidia/gridd.conf.",
            any="Check `nvidia-smi -q | grep -i license` and the licence server in /etc/nvidia/gridd.conf.",
        ),
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS325",
        layer="driver-init",
        title="The driver was told to leave this GPU out",
        symptom="lspci lists the GPU, nvidia-smi and CUDA do not",
        cause="the module's option NVreg_ExcludedGpus names it, or it was excluded for a fault",
        detect="/proc/driver/nvidia/gpus/*/information says `GPU Excluded: Yes`",
        fix=by_host(
            "take {value} out of NVreg_ExcludedGpus in /etc/modprobe.d and reload the module, if the GPU "
            "was not excluded for a fault."
        ),
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
    Code(
        id="GS328",
        layer="driver-init",
        title="CUDA sees no GPU, though one was given and NVML lists it",
        symptom="CUDA error 100; nvidia-smi works in the same place",
        cause=(
            "libcuda and the kernel module are of different versions, or /dev/nvidia-uvm does not work; rarer: the GPU "
            "fails when a program starts on it"
        ),
        detect="cuInit gives 100 or 0 devices, a GPU node opens, NVML lists GPUs, no mask",
        fix=by_host(
            "compare `cat /proc/driver/nvidia/version` with libcuda's file name, `nvidia-modprobe -u -c=0`, read the "
            "kernel log for Xid and RmInitAdapter; reboot if it stays.",
            container=(
                "The GPU was given: recreate the container; if it stays, on the host: `nvidia-modprobe -u -c=0` and "
                "the kernel log for Xid and RmInitAdapter."
            ),
            apptainer=(
                "The GPU was given: start again with `--nv`; if it stays, the host's administrator reads the kernel "
                "log for Xid and RmInitAdapter."
            ),
            kubernetes=(
                "The pod has its GPU: delete the pod; if it stays, start it on another node, and the cluster's "
                "administrator reads this node's kernel log for Xid and RmInitAdapter."
            ),
            slurm=(
                "The job has its GPU: submit again with `--exclude={node}`; the site's administrators: read the kernel "
                "log for Xid and RmInitAdapter."
            ),
        ),
        apart=(
            "`ls -l /dev/nvidia-uvm; ls -l $(ldconfig -p | grep -o '/.*libcuda.so.1$')`: the node is missing, or "
            "another version than NVML's; both right, the GPU"
        ),
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS329",
        layer="driver-init",
        title="A part of the Windows driver is missing",
        symptom="CUDA error 500 in WSL, or in a container there; nvidia-smi works",
        cause=(
            "Windows drivers from branch 555 on need libnvdxgdmal.so.1, and an older container toolkit (before 1.14.4) "
            "or Docker Desktop (before 4.31) does not mount it"
        ),
        detect="WSL, cuInit gives 500; libnvdxgdmal.so.1 in /usr/lib/wsl",
        fix={
            "*": "Update the NVIDIA driver in Windows, then `wsl --update` and `wsl --shutdown`.",
            "container": "Update the container toolkit (1.14.4 or newer) and recreate the container.",
            "wsl-docker": (
                "Update Docker Desktop (4.31 or newer), or nvidia-container-toolkit inside WSL (1.14.4 or newer), and "
                "recreate the container."
            ),
        },
        apart="the same program in WSL outside of a container: works, it is the toolkit; fails, `wsl --update`",
        source="NVIDIA/nvidia-container-toolkit#520; AbdBarho/stable-diffusion-webui-docker#694",
    ),
]
