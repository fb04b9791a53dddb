"""Findings of the kernel module and libcuda: GS2xx."""

from __future__ import annotations

from ..hands import by_capabilities, by_host, by_packages
from . import Code

CODES = [
    Code(
        id="GS201",
        layer="kernel-module",
        title="The kernel module is not loaded",
        symptom="NVML `Driver Not Loaded`, CUDA 100 or 999",
        cause="nvidia.ko is not loaded (build failed after a kernel update, secure boot, blacklist)",
        detect="device nodes exist, /proc/driver/nvidia/version does not, cuInit fails",
        fix=by_host("`modprobe nvidia`; read `dmesg | grep -i nvrm` if it fails."),
        apart=("`dmesg | grep -iE 'nvrm|module verification|lockdown'` on the host says why `modprobe nvidia` fails"),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS202",
        layer="kernel-module",
        title="nouveau drives the GPU",
        symptom="no CUDA at all though the card is there",
        cause="the open-source nouveau module has the card, so nvidia.ko cannot take it",
        detect="/sys/module/nouveau or /proc/modules names nouveau, nvidia is absent",
        fix=by_host(
            "blacklist nouveau, rebuild the initramfs, reboot, install NVIDIA's driver.",
            any="Blacklist nouveau, rebuild the initramfs, reboot, install NVIDIA's driver.",
            container="On the host: blacklist nouveau, rebuild the initramfs, reboot, install NVIDIA's driver.",
        ),
        source="DCGM software test",
    ),
    Code(
        id="GS203",
        layer="kernel-module",
        severity="warning",
        title="The kernel module's version cannot be read",
        symptom="compatibility cannot be judged from versions",
        cause="/proc/driver/nvidia/version has an unknown form",
        detect="parse the NVRM line",
        fix="Report it with the JSON file.",
        source="gpu-smoke",
    ),
    Code(
        id="GS211",
        layer="user-driver",
        title="libcuda.so.1 is missing",
        symptom="`libcuda.so.1: cannot open shared object file`; CUDA 35 with driver version 0",
        cause="the GPU was given to the container without the driver's user-mode libraries",
        detect="device nodes exist, no libcuda.so.1 in any known folder",
        fix={
            "*": "Install the driver's user-mode libraries (libcuda) of the kernel module's version.",
            "container": "Give the GPU by CDI or NVIDIA's runtime, so that libcuda is mounted.",
            "docker": "Give the GPU with `--gpus all` (not only `--device`), so that the toolkit mounts libcuda.",
            "jetson-docker": "Start it with `--runtime nvidia`, so that the Jetson's libcuda is mounted.",
            "podman": "Give the GPU with `--device nvidia.com/gpu=all` (CDI), so that libcuda is mounted.",
            "kubernetes": (
                "Let the NVIDIA device plugin and container toolkit give the GPU (request `nvidia.com/gpu: "
                "1`); a plain /dev mount brings no libcuda."
            ),
            "slurm-node": (
                "Submit again with `--exclude={node}` and tell the site's administrators: this node has no libcuda."
            ),
            "wsl": (
                "Update the NVIDIA driver in Windows, then `wsl --update` and `wsl --shutdown`; install no "
                "Linux driver inside WSL."
            ),
            "jetson": "Install JetPack's libcuda (the package nvidia-l4t-cuda).",
            "apptainer": "Start it with `apptainer run --nv`, so that the host's libcuda is mounted.",
        },
        source="NVIDIA/nvidia-docker#400",
    ),
    Code(
        id="GS212",
        layer="user-driver",
        title="libcuda.so.1 is in a folder the loader does not search",
        symptom="`libcuda.so.1: cannot open shared object file` on GKE and alike",
        cause="the node mounts the driver in {folder}, which is not in LD_LIBRARY_PATH",
        detect="loading the bare name fails, the file exists in a known driver folder",
        fix={
            "*": "Set `LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH` before the program starts.",
            "container": "In the Dockerfile: `ENV LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH`",
            "kubernetes": (
                "In the Dockerfile: `ENV LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH`; or without a new image, in "
                "the pod's `env`: name LD_LIBRARY_PATH, value {folder}."
            ),
        },
        source="GoogleCloudPlatform/compute-gpu-installation#46; NVIDIA/dcgm-exporter#484",
    ),
    Code(
        id="GS213",
        layer="user-driver",
        title="The loader's cache does not know libcuda.so.1",
        symptom="`libcuda.so.1: cannot open shared object file` though the file is in a system folder",
        cause="the driver was mounted after ldconfig ran: the cache is stale",
        detect="loading the bare name fails, the file is in a system folder and not in the cache",
        fix="Run `ldconfig` as root at start, or set `LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH`.",
        source="huggingface/text-generation-inference#1711",
    ),
    Code(
        id="GS214",
        layer="user-driver",
        title="The container got nvidia-smi but not CUDA",
        symptom="nvidia-smi works, libcuda.so.1 is missing",
        cause="NVIDIA_DRIVER_CAPABILITIES lacks `compute`",
        detect="libnvidia-ml.so.1 loads, libcuda.so.1 is in no known folder",
        fix=by_capabilities(
            "Install the driver's compute libraries (libcuda1, nvidia-driver-cuda) of the kernel module's version."
        ),
        source="mudler/LocalAI#11973",
    ),
    Code(
        id="GS215",
        layer="user-driver",
        title="libcuda.so.1 is for another architecture",
        symptom="`No such file or directory` though the file exists",
        cause="the library's ELF header names another machine or class than this program",
        detect="read the ELF header; the loader's own message hides it",
        fix="Use an image or a driver for this machine ({want}); {path} is {have}.",
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS216",
        layer="user-driver",
        title="libcuda.so.1 is an empty file",
        symptom="`file too short`",
        cause="a bind mount whose source was missing, or a full disk during the driver's installation",
        detect="size 0 of the file the loader finds first",
        fix=by_packages("Remove {path} and reinstall the driver."),
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS217",
        layer="user-driver",
        title="libcuda.so.1 is a directory",
        symptom="`cannot read file data: Is a directory`",
        cause="a bind mount whose source did not exist: Docker made a directory",
        detect="stat of the entry the loader finds first",
        fix=by_packages(
            "Remove the directory {path} and reinstall the driver.",
            container="Remove the directory {path} on the host, fix the mount's source and recreate the container.",
            kubernetes=(
                "Take the hostPath volume of {path} out of the pod; or start the pod on another node and tell"
                " the cluster's administrator."
            ),
        ),
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS218",
        layer="user-driver",
        title="libcuda.so.1 is damaged",
        symptom="`invalid ELF header`, `file too short`, or a crash",
        cause="a truncated copy or a text file in place of the library",
        detect="ELF header and segment table against the file's size",
        fix=by_packages("Restore {path}: reinstall the driver."),
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS219",
        layer="user-driver",
        title="libcuda.so.1 is the link-time stub",
        symptom="CUDA error 34, or 35 with a driver that is there",
        cause="a .../stubs folder is on the loader's path",
        detect="the loaded path is in a stubs folder, or cuInit gives 34",
        fix="Take the stubs folder out of LD_LIBRARY_PATH and ld.so.conf: {path}",
        source="numba/numba#8985; NVIDIA/warp#219; xmake-io/xmake#4686",
    ),
    Code(
        id="GS220",
        layer="user-driver",
        severity="warning",
        title="libcuda.so.1 was replaced on disk while in use",
        symptom="new processes fail with 803 or a version mismatch, old ones still work",
        cause="the driver was upgraded in place under a running machine",
        detect="/proc/self/maps marks the loaded library as deleted",
        fix=by_host(
            "reboot or reload the module.",
            any="Reboot the host or reload the module.",
            container="Recreate the container; if it stays, reboot the host or reload its module.",
            apptainer="Start again with `--nv`; if it stays, the host's administrator reboots it.",
            kubernetes=(
                "Delete the pod; if it stays, start it on another node, and the cluster's administrator "
                "reboots this one after a drain."
            ),
        ),
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS221",
        layer="user-driver",
        title="libcuda.so.1 lacks the driver's functions",
        symptom="`undefined symbol: cuInit` or alike",
        cause="a truncated library, a stand-in, or a foreign file of that name",
        detect="look up the functions that every driver has",
        fix="Replace {path} with the driver's own library.",
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS222",
        layer="user-driver",
        title="libcuda.so.1 is a dangling link",
        symptom="`cannot open shared object file` though `ls` shows the name",
        cause="the link's target was not mounted or was removed by an upgrade",
        detect="the name exists as a link, its target does not",
        fix=by_packages(
            "Reinstall the driver: {path} points to nothing.",
            container="Recreate the container, or reinstall the driver on the host: {path} points to nothing.",
            kubernetes=(
                "Delete the pod; if it stays, start it on another node and tell the cluster's administrator: "
                "{path} points to nothing."
            ),
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS223",
        layer="user-driver",
        title="libcuda.so.1 cannot be read",
        symptom="`Permission denied`",
        cause="file mode or security label forbids this user",
        detect="open() gives EACCES",
        fix=by_packages(
            "`chmod a+rx {path}`, or relabel it.",
            container=(
                "In the Dockerfile: `RUN chmod a+rx {path}`; where it is mounted, correct its mode or label "
                "on the host."
            ),
            kubernetes=(
                "Correct the mode of {path} in the image; where it is mounted, set the pod's "
                "`securityContext.seLinuxOptions`, or tell the cluster's administrator."
            ),
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS224",
        layer="user-driver",
        severity="warning",
        title="A Linux driver shadows the WSL driver",
        symptom="CUDA 100 or 999 in WSL, nvidia-smi.exe works",
        cause="a native Linux driver was installed inside WSL",
        detect="WSL, and libcuda was not loaded from /usr/lib/wsl/lib",
        fix="Remove the Linux driver packages inside WSL: only the Windows driver belongs there.",
        source="numba/numba#9034; microsoft/WSL#5663",
    ),
    Code(
        id="GS230",
        layer="user-driver",
        title="The host did not give libcuda, though `compute` was asked for",
        symptom="nvidia-smi works, libcuda.so.1 is missing, NVIDIA_DRIVER_CAPABILITIES has `compute`",
        cause=(
            "the host's driver was installed without its compute part (libcuda1, nvidia-driver-cuda), or the "
            "CDI specification is older than the driver"
        ),
        detect="libnvidia-ml.so.1 loads, libcuda.so.1 is in no known folder, the capability was asked for",
        fix=by_host(
            "install the driver's compute libraries (libcuda1, nvidia-driver-cuda).",
            any="Install the driver's compute libraries (libcuda1, nvidia-driver-cuda).",
            container=(
                "On the host: install the driver's compute libraries (libcuda1, nvidia-driver-cuda), then "
                "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`, and recreate the container."
            ),
            apptainer=(
                "The host's administrator installs the driver's compute libraries (libcuda1, "
                "nvidia-driver-cuda); then start with `--nv`."
            ),
            kubernetes=(
                "Start the pod on another node; the cluster's administrator: install the driver's compute "
                "libraries (libcuda1, nvidia-driver-cuda), then `nvidia-ctk cdi generate "
                "--output=/etc/cdi/nvidia.yaml`."
            ),
        ),
        apart=(
            "`ldconfig -p | grep libcuda` on the host: not listed, the package is missing; listed, the CDI "
            "specification is old"
        ),
        source="NVIDIA/nvidia-container-toolkit#1875",
    ),
]
