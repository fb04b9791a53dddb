"""Findings of the device nodes: GS1xx."""

from __future__ import annotations

from ..hands import by_driver, by_host
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
            "jetson-docker": "Start the container with `--runtime nvidia`.",
            "podman": "Start it with `podman run --device nvidia.com/gpu=all` on a GPU machine.",
            "kubernetes": (
                "Request `nvidia.com/gpu: 1` in the pod's resource limits; if it then stays Pending, the "
                "node's device plugin is not running (`kubectl describe node | grep nvidia.com/gpu`); if it "
                "did ask, set `runtimeClassName: nvidia`."
            ),
            "apptainer": "Start it with `apptainer run --nv` on a GPU machine.",
            "slurm": "Submit to a partition with GPUs (`sinfo -o '%P %G'`) and ask for one (`--gres=gpu:1`).",
            "wsl": "Install the NVIDIA driver in Windows and run `wsl --update`.",
            "jetson": "Install JetPack: its kernel brings the GPU's driver.",
        },
        apart={
            "*": (
                "`lspci -d 10de:` on the host: no line, there is no NVIDIA GPU; a line, its driver or the "
                "container's option is missing"
            ),
            "kubernetes": (
                "`kubectl describe node | grep nvidia.com/gpu`: no line or 0, the node has none to give; else"
                " the pod did not ask"
            ),
            "slurm": "`scontrol show job $SLURM_JOB_ID | grep -i gres`: no line, the job did not ask",
            "wsl": "`nvidia-smi.exe` in Windows: no such program, there is no driver; a list, WSL is too old",
            "jetson": "`dpkg -l 'nvidia-l4t-*'`: no line, JetPack is not installed",
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
            "jetson-docker": "Start it with `docker run --runtime nvidia`.",
            "podman": "Start it with `podman run --device nvidia.com/gpu=all`.",
            "kubernetes": (
                "Request `nvidia.com/gpu: 1` in the pod's resource limits; if it then stays Pending, the "
                "node's device plugin is not running (`kubectl describe node | grep nvidia.com/gpu`); if it "
                "did ask, set `runtimeClassName: nvidia`."
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
                "Let the unit or session have the device: remove `DeviceAllow=` of its systemd unit, or name "
                "the GPU there."
            ),
            "container": (
                "Recreate the container; give the GPU by CDI or create the /dev/char links so that reloads "
                "keep the rules."
            ),
            "apptainer": "Ask the job manager for the GPU: its device rules keep {path} from this process.",
            "kubernetes": "Delete the pod; let the device plugin give the GPU by CDI so that reloads keep the rules.",
            "rootless": (
                "Rootless engine: on the host set `no-cgroups = true` (`nvidia-ctk config --set "
                "nvidia-container-cli.no-cgroups --in-place`) and give the GPU by CDI; recreate the "
                "container."
            ),
            "slurm": "Ask Slurm for the GPU (`--gres=gpu:1`): its device rules give a job only its own GPUs.",
        },
        apart={
            "*": (
                "`systemctl show -p DeviceAllow,DevicePolicy <unit>`: rules listed, it is the unit; none, a "
                "cgroup above it"
            ),
            "container": (
                "did it work in this container before? Then it was the reload; else `grep no-cgroups "
                "/etc/nvidia-container-runtime/config.toml` on the host: true is right for rootless engines "
                "only"
            ),
            "apptainer": "the same command outside of the container: refused too, it is the job manager",
            "kubernetes": "did it work in this pod before? Then it was the reload; else the GPU is another pod's",
            "slurm": (
                "`scontrol show job -d $SLURM_JOB_ID | grep -i gres`: {path} not among its GPUs, it is another job's"
            ),
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
            "*": (
                "If this GPU is meant for you: add the user to the group of {path} (`usermod -aG`), or let "
                "the module make it for all (NVreg_DeviceFileMode=0666)."
            ),
            "docker": (
                "If this GPU is meant for you: run with `--group-add` of the node's group; on an SELinux "
                "host: `setsebool -P container_use_devices=1`."
            ),
            "podman": (
                "If this GPU is meant for you: run with `--group-add keep-groups`; on an SELinux host: "
                "`setsebool -P container_use_devices=1`."
            ),
            "rootless": (
                "If this GPU is meant for you: keep the groups of the calling user (`--group-add "
                "keep-groups`), who needs the group of {path} on the host."
            ),
            "apptainer": (
                "If this GPU is meant for you: the calling user needs the group of {path}; ask the host's "
                "administrator."
            ),
            "kubernetes": (
                "Set the pod's `securityContext.supplementalGroups` to the group number of {path} (`ls -ln`),"
                " or leave out `runAsNonRoot` settings that the device plugin does not expect."
            ),
            "slurm": (
                "Use the GPUs that Slurm gave this job; if {path} is one of them, tell the site's administrators."
            ),
            "jetson": "Add the user to the group video (`usermod -aG video`) and log in again.",
            "jetson-docker": "Run with `--group-add video`.",
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
        fix=by_host(
            "`nvidia-modprobe -u -c=0`.",
            container="On the host: `nvidia-modprobe -u -c=0`; then recreate the container.",
            docker="On the host: `nvidia-modprobe -u -c=0`; then recreate the container with `--gpus all`.",
            jetson_docker="Recreate the container with `--runtime nvidia`.",
            apptainer="The host's administrator: `nvidia-modprobe -u -c=0`; then start again with `--nv`.",
            kubernetes=(
                "Delete the pod; if it stays, start it on another node, and the cluster's administrator: "
                "`nvidia-modprobe -u -c=0`."
            ),
        ),
        source="pytorch/pytorch#49081",
    ),
    Code(
        id="GS106",
        layer="device-nodes",
        title="The driver is loaded but made no device nodes",
        symptom="CUDA 100 as a normal user, works after root ran nvidia-smi once",
        cause="nothing called nvidia-modprobe since boot",
        detect="/proc/driver/nvidia/version answers on a bare machine, no /dev/nvidiactl",
        fix=by_host(
            "`nvidia-modprobe -c=0 -u`, or enable nvidia-persistenced.",
            any="Run `nvidia-modprobe -c=0 -u` or enable nvidia-persistenced.",
        ),
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
        fix=by_driver(
            "",
            "use an image for the older driver, or set NVIDIA_DISABLE_REQUIRE=1 if you know it runs",
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
]
