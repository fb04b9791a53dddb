"""Failures of the driver's start that something else explains: NVML, the nodes, limits, variables, /proc and /sys."""

from __future__ import annotations

from tests.gpu_smoke.smoke_machine import Machine
from tests.gpu_smoke.smoke_setups import Case, mig, opens, pci, unset, void, without

GVISOR = "Linux version 4.4.0 Sun Jan 10 15:06:54 PST 2016"
KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def no_nodes(m: Machine) -> Machine:
    """A container on a GPU host that got no node."""
    return m.kernel().toolkit().image().framework()


def wsl_driver(m: Machine) -> Machine:
    """WSL with the driver of Windows."""
    m.nodes("dxg").driver(folder="/usr/lib/wsl/lib").nvml().toolkit().image().framework().set(SHM=8 << 30)
    m.file("/proc/version", "Linux version 5.15.0-microsoft-standard-WSL2")
    return m


# fmt: off
START = [
    Case("no-power", "a power cable is missing", lambda m: m.good().set(CUINIT_RC=100, NVML_DEVICE_RC=8), "GS413",
         "driver-init", "power cables"),
    Case("no-interrupts", "the kernel gives no interrupts", lambda m: m.good().set(NVML_RC=11, CTX_RC=999), "GS414",
         "nvml", "IRQ"),
    Case("inforom", "the infoROM is damaged and CUDA does not start",
         lambda m: m.good().set(CUINIT_RC=100, NVML_DEVICE_RC=14), "GS415", "driver-init", "replace the card"),
    Case("nvml-no-driver-and-100", "NVML says that the driver is not loaded, cuInit gives 100",
         lambda m: m.good().set(CUINIT_RC=100, NVML_RC=9), "GS402", "driver-init", "modprobe nvidia"),
    Case("nvml-in-use", "another program holds the GPU", lambda m: m.good().set(NVML_RC=19, CTX_RC=46), "GS416", "nvml",
         "fuser"),
    Case("rows-pending", "rows of the memory wait for a reset", lambda m: m.good().set(ROWS_PENDING=1), "GS417", "nvml",
         "reset GPU 0", exit=0, cause=False),
    Case("no-control-node", "--device /dev/nvidia0 alone",
         lambda m: without(m, "nvidiactl").set(CUINIT_RC=100).file("/.dockerenv"), "GS124", "device-nodes",
         "--gpus all"),
    Case("node-eio", "the driver cannot start the GPU", lambda m: opens(m, 5, "nvidia0").set(CUINIT_RC=100), "GS109",
         "device-nodes", "RmInitAdapter"),
    Case("node-enxio", "a left-over /dev/nvidia-uvm", lambda m: opens(m, 6, "nvidia-uvm").set(CUINIT_RC=999), "GS110",
         "device-nodes", "nvidia-modprobe -u"),
    Case("node-directory", "Docker made a directory of /dev/nvidia0",
         lambda m: (without(m, "nvidia0").root / "dev/nvidia0").mkdir() or m.set(CUINIT_RC=100).file("/.dockerenv"),
         "GS111", "device-nodes", "not by `-v`"),
    Case("node-other", "a node gives an error without a story", lambda m: opens(m, 28, "nvidia0").set(CUINIT_RC=100),
         "GS113", "device-nodes", "NVRM"),
    Case("uvm-old-number", "/dev/nvidia-uvm is left from before a reboot",
         lambda m: (without(m, "nvidia-uvm").root / "dev/nvidia-uvm").symlink_to("/dev/null") or m.set(CUINIT_RC=999)
         .file("/proc/devices", "511 nvidia-uvm\n"), "GS123", "device-nodes", "nvidia-modprobe"),
    Case("no-runtime-class", "the device plugin gave a GPU, the pod runs under runc",
         lambda m: no_nodes(m).variables(**KUBERNETES, NVIDIA_VISIBLE_DEVICES="GPU-11111111-1111"), "GS114",
         "device-nodes", "runtimeClassName: nvidia"),
    Case("runtime-not-nvidia", "NVIDIA_VISIBLE_DEVICES=0 under Docker's own runtime",
         lambda m: no_nodes(m).variables(NVIDIA_VISIBLE_DEVICES="0").file("/.dockerenv"), "GS114", "device-nodes",
         "--gpus all"),
    Case("two-named-one-given", "the container was to get two GPUs and has one",
         lambda m: m.good().variables(NVIDIA_VISIBLE_DEVICES="GPU-11111111-1111,GPU-22222222-1111").file("/.dockerenv"),
         "GS121", "driver-init", "1 of 2 are usable", exit=0, cause=False),
    Case("visible-void", "NVIDIA_VISIBLE_DEVICES=void", void("void"), "GS115", "device-nodes",
         "NVIDIA_VISIBLE_DEVICES=all"),
    Case("control-node-only", "--device /dev/nvidiactl alone",
         lambda m: without(m, "nvidia0").set(CUINIT_RC=100, NVML_COUNT=0, COUNT=0).file("/.dockerenv"), "GS116",
         "device-nodes", "--gpus all"),
    Case("slurm-without-gres", "a Slurm job without --gres, nodes withheld",
         lambda m: opens(m, 1, "nvidia0").set(CUINIT_RC=100, COUNT=0).variables(SLURM_JOB_ID="7"), "GS117",
         "device-nodes", "--gres=gpu:1"),
    Case("slurm-mask", "a Slurm job without --gres, an empty mask",
         lambda m: m.good().set(CUINIT_RC=100).variables(SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="NoDevFiles"), "GS117",
         "driver-init", "--gres=gpu:1"),
    Case("gvisor-without-nvproxy", "gVisor without nvproxy",
         lambda m: m.toolkit().image().file("/proc/version", GVISOR), "GS118", "device-nodes", "--nvproxy"),
    Case("card-of-vfio", "the card belongs to a virtual machine", lambda m: pci(m.toolkit().image(), "vfio-pci"),
         "GS119", "device-nodes", "vfio-pci"),
    Case("mig-without-nodes", "MIG instances without their capability nodes", lambda m: mig(m, CUINIT_RC=100), "GS120",
         "driver-init", "nvidia-caps"),
    Case("mig-given-and-unseen", "the mask names an instance that NVML lists, cuInit gives 100",
         lambda m: mig(m, CUINIT_RC=100).variables(CUDA_VISIBLE_DEVICES="MIG-00000064-2222-2222-2222-222222222222")
         and m.file("/dev/nvidia-caps/nvidia-cap66"), "GS328", "driver-init", "nvidia-modprobe -u"),
    Case("address-space", "ulimit -v", lambda m: m.good().set(CUINIT_RC=2).limits(512 << 20), "GS317", "driver-init",
         "ulimit -v unlimited"),
    Case("mps-daemon-gone", "the MPS daemon is gone",
         lambda m: m.good().set(CUINIT_RC=805).variables(CUDA_MPS_PIPE_DIRECTORY="/tmp/mps-gone"), "GS318",
         "driver-init", "nvidia-cuda-mps-control -d"),
    Case("mps-full", "the MPS server is full", lambda m: m.good().set(CUINIT_RC=808), "GS319", "driver-init",
         "End your own clients"),
    Case("fabric-in-progress", "the fabric still comes up", lambda m: m.good().set(CUINIT_RC=802, FABRIC=2), "GS321",
         "driver-init", "Wait a minute"),
    Case("mode-prohibited", "compute mode prohibited", lambda m: m.good().set(CUINIT_RC=100, COMPUTE_MODE=2), "GS323",
         "driver-init", "nvidia-smi -c 0"),
    Case("seven-of-eight", "CUDA lists seven of eight GPUs", lambda m: m.good().set(COUNT=7, NVML_COUNT=8), "GS121",
         "driver-init", "7 of 8", exit=0, cause=False),
    Case("slow-start", "the GPU is started for every first user", lambda m: m.good().set(START_MS=1100, PERSISTENCE=0),
         "GS122", "driver-init", "nvidia-persistenced", exit=0, cause=False),
    Case("rootless-cgroup", "a rootless engine whose toolkit sets device rules",
         lambda m: opens(m, 1, "nvidiactl", "nvidia0").set(CUINIT_RC=100).file("/run/.containerenv")
         and m.file("/proc/self/uid_map", "0 1000 1\n1 100000 65536\n"), "GS103", "device-nodes", "no-cgroups = true"),
    Case("wsl-old-driver", "WSL with an old Windows driver",
         lambda m: m.real(13).nodes("dxg").set(CUDA_VERSION=12040).file("/proc/version",
         "Linux version 5.15.0-microsoft-standard-WSL2"), "GS502", "runtime", "in Windows"),
    Case("wsl-no-device", "WSL whose Windows driver shows no GPU",
         lambda m: m.good().nodes("dxg").set(CUINIT_RC=100).file("/proc/version",
         "Linux version 5.15.0-microsoft-standard-WSL2"), "GS306", "driver-init", "in Windows", cause=False),
    Case("vgpu-licence", "a virtual GPU without its licence", lambda m: m.good().set(CUINIT_RC=102), "GS324",
         "driver-init", "licence server"),
    Case("nvml-17-and-999", "the operating system refuses NVML too", lambda m: m.good().set(CUINIT_RC=999, NVML_RC=17),
         "GS401", "driver-init", "modes of /dev/nvidia"),
    Case("excluded", "the module was told to leave the GPU out",
         lambda m: m.good().set(CUINIT_RC=100).file("/proc/driver/nvidia/gpus/0000:01:00.0/information",
         "Device Minor: 0\nGPU Excluded: Yes\n"), "GS325", "driver-init", "NVreg_ExcludedGpus"),
    Case("jit-off", "compiling PTX is switched off", lambda m: m.good().set(MODULE_RC=223), "GS718", "kernels",
         "CUDA_DISABLE_PTX_JIT"),
    Case("mps-client-ended", "another client of the MPS server failed",
         lambda m: m.good().set(LAUNCH_RC=810).variables(CUDA_MPS_PIPE_DIRECTORY="/tmp/mps").file("/tmp/mps/control"),
         "GS327", "kernels", "server.log"),
    Case("slurm-mask-emptied", "a Slurm job that has a GPU emptied the mask",
         lambda m: m.good().set(CUINIT_RC=100).variables(SLURM_JOB_ID="7", SLURM_JOB_GPUS="0", CUDA_VISIBLE_DEVICES=""),
         "GS304", "driver-init", "srun --gres=gpu:1"),
    Case("wsl-500", "WSL whose container toolkit leaves a part of the driver out",
         lambda m: wsl_driver(m).set(CUINIT_RC=500), "GS329", "driver-init", "wsl --update"),
    Case("bare-without-libcuda", "NVML is installed, libcuda is not, no container",
         lambda m: unset(m.good(), "driver/libcuda.so.1"), "GS211", "user-driver", "Install the driver's user-mode"),
    Case("jetson-docker", "Docker on a Jetson without its runtime",
         lambda m: unset(m.good().nodes("nvgpu"), "driver/libcuda.so.1").file("/.dockerenv")
         and (m.home / "driver/libnvidia-ml.so.1").unlink(), "GS211", "user-driver", "--runtime nvidia"),
]
# fmt: on
