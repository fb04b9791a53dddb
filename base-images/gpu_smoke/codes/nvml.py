"""Findings of NVML: GS4xx."""

from __future__ import annotations

from ..hands import by_capabilities, by_host
from . import Code

CODES = [
    Code(
        id="GS401",
        layer="nvml",
        title="NVML: no permission",
        symptom="`Insufficient Permissions`",
        cause="SELinux, groups in a rootless container, or file mode",
        detect="nvmlInit gives 4",
        fix={
            "*": "Check the modes of /dev/nvidia*, and the groups of this user.",
            "docker": (
                "On an SELinux host: `setsebool -P container_use_devices=1`; else run with `--group-add` of "
                "the nodes' group."
            ),
            "podman": (
                "Run with `--group-add keep-groups`; on an SELinux host: `setsebool -P container_use_devices=1`."
            ),
            "rootless": (
                "Run with `--group-add keep-groups`; on an SELinux host: `setsebool -P container_use_devices=1`."
            ),
            "kubernetes": (
                "Set the pod's `securityContext.supplementalGroups` to the group number of /dev/nvidia* (`ls "
                "-ln`), or its `seLinuxOptions` to a type that may use devices."
            ),
            "slurm": (
                "Use the GPUs that Slurm gave this job; if it may not use those, tell the site's administrators."
            ),
            "wsl": "Update the NVIDIA driver in Windows, then `wsl --shutdown`.",
            "jetson": "Add the user to the group video (`usermod -aG video`) and log in again.",
        },
        apart="`ls -lZ /dev/nvidia*; id; getenforce` here and on the host",
        source="NVIDIA/nvidia-container-toolkit#210, #580",
    ),
    Code(
        id="GS402",
        layer="nvml",
        title="NVML: the driver is not loaded",
        symptom="`Driver Not Loaded`",
        cause="nvidia.ko is not loaded",
        detect="nvmlInit gives 9",
        fix=by_host("`modprobe nvidia`; read `dmesg | grep -i nvrm` if it fails."),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS403",
        layer="nvml",
        title="NVML: a library of the driver is missing",
        symptom="`Library Not Found`",
        cause="the driver's user-mode libraries are incomplete in the container",
        detect="nvmlInit gives 12",
        fix=by_capabilities("Reinstall the driver, so that all of its user-mode libraries are of one version."),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS404",
        layer="nvml",
        title="A GPU fell off the bus",
        symptom="`GPU is lost`",
        cause="hardware, power or PCIe fault (Xid 79)",
        detect="an NVML call gives 15",
        fix=by_host(
            "reboot; replace the card if it comes back.",
            any="Reboot the host; replace the card if it comes back.",
        ),
        source="NVIDIA/k8s-device-plugin#2038; NVIDIA/NVSentinel#155",
    ),
    Code(
        id="GS405",
        layer="nvml",
        title="A GPU must be reset",
        symptom="`GPU requires reset`",
        cause="an uncorrectable fault (ECC, NVLink) left the GPU unusable",
        detect="an NVML call gives 16",
        fix=by_host("stop the GPU's users, `nvidia-smi --gpu-reset -i <n>`, or reboot."),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS406",
        layer="nvml",
        title="NVML and the kernel module do not match",
        symptom="`Driver/library version mismatch`",
        cause=("the host's driver was upgraded and the old module still runs, or the container predates the upgrade"),
        detect="nvmlInit gives 18; the kernel module's version against the library's file name",
        fix=by_host(
            "reboot or reload the module.",
            any="Reboot the host or reload the module.",
            container="Recreate the container; if it stays, reboot the host or reload its module.",
            apptainer="Start again with `--nv`; if it stays, the host's administrator reboots it.",
            kubernetes=(
                "Delete the pod; if it stays, start it on another node, and the cluster's administrator "
                "reboots this one after a drain (GPU operator: restart its driver pod)."
            ),
        ),
        apart=(
            "`cat /proc/driver/nvidia/version` against `modinfo -F version nvidia` on the host: different, it"
            " was upgraded and not reloaded; equal, the container is older"
        ),
        source="NVIDIA/nvidia-docker#365; NVIDIA/nvidia-container-toolkit#394",
    ),
    Code(
        id="GS407",
        layer="nvml",
        title="NVML: unknown error",
        symptom="`Unknown Error`, often after days",
        cause="the container lost its device rules after a systemd reload",
        detect="nvmlInit gives 999",
        fix=by_host(
            "reboot or reload the module.",
            any="Reboot the host or reload the module.",
            container="Recreate the container; give the GPU by CDI so that reloads keep the rules.",
            apptainer="Start again with `--nv`; if it stays, the host's administrator reboots it.",
            kubernetes="Delete the pod; let the device plugin give the GPU by CDI so that reloads keep the rules.",
        ),
        apart=("does `nvidia-smi` work on the host? Then the container lost its device rules; else reload the module"),
        source="NVIDIA/nvidia-container-toolkit#48; NVIDIA/gpu-operator#485",
    ),
    Code(
        id="GS408",
        layer="nvml",
        severity="warning",
        title="NVML is not here",
        symptom="no nvidia-smi, no GPU metrics, NCCL cannot see the topology",
        cause="NVIDIA_DRIVER_CAPABILITIES lacks `utility`, or the driver folder is not searched",
        detect="libnvidia-ml.so.1 does not load",
        fix=by_capabilities(
            "Install the driver's management library (libnvidia-ml, libnvidia-compute) of the kernel "
            "module's version ({reason})."
        ),
        apart={
            "*": "`ldconfig -p | grep nvidia-ml`: not listed, it is not installed",
            "container": (
                "`echo $NVIDIA_DRIVER_CAPABILITIES; ls /usr/local/nvidia/lib64`: no `utility`, or a folder "
                "that is not searched"
            ),
            "apptainer": "`ls /.singularity.d/libs`: empty, it was started without `--nv`; else the host lacks it",
            "wsl": "`ls /usr/lib/wsl/lib`: no libnvidia-ml, the Windows driver is too old",
        },
        source="mudler/LocalAI#11973",
    ),
    Code(
        id="GS409",
        layer="nvml",
        title="NVML failed",
        symptom="NVML gives the code shown",
        cause="see the code in NVML's reference",
        detect="any other code of nvmlInit",
        fix={
            "*": "Look up code {value} in NVML's list (nvmlReturn_t) and read the kernel log.",
            "kubernetes": (
                "Look up code {value} in NVML's list (nvmlReturn_t); start the pod on another node: works "
                "there, tell the cluster's administrator."
            ),
            "slurm": (
                "Look up code {value} in NVML's list (nvmlReturn_t); submit again with `--exclude={node}`: "
                "works there, tell the site's administrators."
            ),
        },
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS410",
        layer="nvml",
        severity="warning",
        title="Uncorrected memory errors",
        symptom="wrong results or Xid 48, 63, 94, 95",
        cause="the GPU's memory has uncorrected ECC errors",
        detect="nvmlDeviceGetTotalEccErrors, uncorrected, volatile",
        fix=by_host(
            "reset GPU {value} and watch it; replace the card if errors come back.",
            any="Reset GPU {value} and watch it; replace the card if errors come back.",
        ),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS411",
        layer="nvml",
        severity="warning",
        title="The GPU is slowed down by the hardware",
        symptom="the program is slower than on other nodes",
        cause="heat, power brake or hardware protection",
        detect="nvmlDeviceGetCurrentClocksEventReasons: hardware slowdown, thermal or power brake bits",
        fix=by_host(
            "check cooling and power of GPU {value}.",
            any="Check cooling and power of GPU {value}.",
            jetson="Check cooling, and the power mode (`nvpmodel -q`).",
        ),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS412",
        layer="nvml",
        severity="info",
        title="The PCIe link runs narrower than it can",
        symptom="slow copies between host and GPU",
        cause="a badly seated card or riser, or a link that powers down when idle",
        detect="nvmlDeviceGetCurrPcieLinkWidth against the maximum",
        fix=by_host(
            "look again under load; reseat the card of GPU {value} if it stays.",
            any="Look again under load; reseat the card of GPU {value} if it stays.",
        ),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS413",
        layer="nvml",
        title="A GPU has too little power",
        symptom="`nvmlInit` or a query gives 8",
        cause="a power cable is missing or loose",
        detect="an NVML call gives 8",
        fix=by_host(
            "connect the card's power cables; {value}.",
            any="Connect the card's power cables; {value}.",
        ),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS414",
        layer="nvml",
        title="A GPU gets no interrupts",
        symptom="an NVML call gives 11; calls hang or time out",
        cause="the kernel does not deliver the GPU's interrupts (firmware, IOMMU, virtual machine)",
        detect="an NVML call gives 11",
        fix=by_host(
            ("read `dmesg` for IRQ lines; update the firmware, or check the virtual machine's PCI passthrough."),
            any=("Read `dmesg` for IRQ lines; update the firmware, or check the virtual machine's PCI passthrough."),
        ),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS415",
        layer="nvml",
        title="A GPU's infoROM is damaged",
        symptom="an NVML call gives 14; nvidia-smi warns of the infoROM",
        cause="an interrupted firmware update or a failing card",
        detect="an NVML call gives 14",
        fix=by_host(
            "reboot; replace the card if it stays (`nvidia-smi -q | grep -i inforom`).",
            any="Reboot the host; replace the card if it stays (`nvidia-smi -q | grep -i inforom`).",
        ),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS416",
        layer="nvml",
        title="A GPU is in use by something that shuts others out",
        symptom="an NVML call gives 19",
        cause="another process holds the GPU exclusively",
        detect="an NVML call gives 19",
        fix=by_host(
            "find it with `nvidia-smi` or `fuser -v /dev/nvidia*`.",
            any="Find it with `nvidia-smi` or `fuser -v /dev/nvidia*` on the host; end it if it is yours.",
            kubernetes=(
                "Start the pod on another node; the cluster's administrator can see who holds this GPU (`nvidia-smi`)."
            ),
            slurm=(
                "End what this job left on the GPU (`nvidia-smi`); if it is not this job's, submit again with"
                " `--exclude={node}` and tell the site's administrators."
            ),
        ),
        source="NVML API reference, nvmlReturn_t",
    ),
    Code(
        id="GS417",
        layer="nvml",
        severity="warning",
        title="A GPU remaps rows of its memory",
        symptom="wrong results, Xid 63 or 64",
        cause=("rows of the GPU's memory failed: a remapping is pending until the next reset, or there are none left"),
        detect="nvmlDeviceGetRemappedRows",
        fix=by_host(
            "pending: reset GPU {value} (`nvidia-smi --gpu-reset -i {value}`); failed: replace the card.",
            any="Pending: reset GPU {value} (`nvidia-smi --gpu-reset -i {value}`); failed: replace the card.",
        ),
        source="NVIDIA, GPU memory error management",
    ),
]
