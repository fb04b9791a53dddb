"""Twenty public threads: a machine with the symptoms that people described, and the fix that helped them."""

from __future__ import annotations

from tests.gpu_smoke.cases_start import KUBERNETES, no_nodes
from tests.gpu_smoke.smoke_machine import Machine
from tests.gpu_smoke.smoke_setups import Case, compat, gke, no_libcuda, opens, stale_cache, triton_libcuda, unset

PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Thu Jul 17\n"
CONTAINER = "/.dockerenv"


def card(m: Machine, device: str) -> Machine:
    """NVIDIA's GPU of a PCI device id on the bus, in nvidia's hands."""
    folder = "/sys/bus/pci/devices/0000:01:00.0"
    m.file(f"{folder}/vendor", "0x10de\n")
    m.file(f"{folder}/device", f"{device}\n")
    (m.file(f"{folder}/class", "0x030200\n").parent / "driver").symlink_to("../../drivers/nvidia")
    return m


def hmm(m: Machine, disabled: str = "N") -> Machine:
    """The parameter of nvidia_uvm that switches HMM off."""
    m.file("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", f"{disabled}\n")
    return m


def cdi_failed(m: Machine) -> Machine:
    """A pod that asked for a GPU: NVIDIA's runtime mounted libcuda, CDI had no device nodes for it."""
    no_nodes(m).driver().variables(**KUBERNETES, NVIDIA_VISIBLE_DEVICES="GPU-11111111-1111").set(CUINIT_RC=100)
    library = m.home / "driver" / "libcuda.so.580.65.06"
    m.file("/proc/self/mountinfo", f"901 900 8:1 /usr/lib/libcuda.so {library} ro - ext4 /dev/sda1 ro\n")
    return m


def lxc(m: Machine) -> Machine:
    """A container of LXC whose configuration allows nvidia's number 195 and not that of nvidia-uvm."""
    opens(m, 1, "nvidia-uvm").set(CUINIT_RC=999).file("/proc/devices", "195 nvidia\n511 nvidia-uvm\n")
    m.file("/run/systemd/container", "lxc\n")
    return m


# fmt: off
THREADS = [
    Case("toolkit-48", "NVML Unknown Error after `systemctl daemon-reload`",
         lambda m: opens(m, 1, "nvidiactl", "nvidia0").set(NVML_RC=999, CUINIT_RC=999).file(CONTAINER), "GS103",
         "device-nodes", "reloads keep the rules", "13"),
    Case("nvidia-docker-365", "Driver/library version mismatch after an upgrade of the host",
         lambda m: m.good().kernel("580.95.05").set(CUINIT_RC=803, NVML_RC=18), "GS310", "driver-init", "Reboot"),
    Case("pytorch-35710", "802 on a DGX", lambda m: m.good().set(CUINIT_RC=802, FABRIC=1), "GS308", "driver-init",
         "nvidia-fabricmanager", "10"),
    Case("huggingface-hub-4134", "802 on one rented H200",
         lambda m: m.good().set(CUINIT_RC=802, FABRIC=1).variables(**KUBERNETES), "GS308", "driver-init",
         "Start the pod on another node"),
    Case("gpu-operator-2781", "B200 whose fabric stays in progress: ib_umad is not loaded",
         lambda m: card(m, "0x2901").good().set(CUINIT_RC=802, FABRIC=2), "GS331", "driver-init", "modprobe ib_umad"),
    Case("gpu-operator-2781-nvlsm", "the same with ib_umad: nvlsm does not run",
         lambda m: card(m, "0x2901").good().set(CUINIT_RC=802, FABRIC=2).variables(**KUBERNETES)
         .file("/sys/module/ib_umad/refcnt", "0\n"), "GS332", "driver-init", "whether nvlsm runs"),
    Case("vllm-34821", "803: the image's cuda-compat is older than the host's driver",
         lambda m: compat(m, "570.86.10", 803).file(CONTAINER), "GS309", "driver-init",
         "Take /usr/local/cuda-12.8/compat out", "8"),
    Case("nvidia-docker-1515", "804: cuda-compat on a GeForce", lambda m: compat(m, "590.44.01", 804), "GS311",
         "driver-init", "/usr/local/cuda-12.8/compat", "9"),
    Case("open-modules-901", "cuInit gives 3 in every program, nvidia-smi works; HMM is on",
         lambda m: hmm(m.good()).set(CUINIT_RC=3), "GS330", "driver-init", "uvm_disable_hmm=1"),
    Case("open-modules-947", "cuInit gives 3 in a container whose /sys does not tell",
         lambda m: m.good().set(CUINIT_RC=3), "GS302", "driver-init", "uvm_disable_hmm=1"),
    Case("open-modules-872", "RTX 5090 under the proprietary module: No devices were found",
         lambda m: card(opens(m, 5, "nvidia0").set(CUINIT_RC=100, NVML_COUNT=0), "0x2b85")
         .file("/proc/driver/nvidia/version", PROPRIETARY), "GS125", "device-nodes", "open kernel module"),
    Case("open-modules-862", "RTX 5090 under the open module: the firmware gives no room",
         lambda m: card(opens(m, 5, "nvidia0").set(CUINIT_RC=100, NVML_COUNT=0), "0x2b85"), "GS126", "device-nodes",
         "Above 4G Decoding"),
    Case("blackwell-old-branch", "B200 under the open module of branch 550",
         lambda m: card(opens(m, 5, "nvidia0").set(CUINIT_RC=100, NVML_COUNT=0), "0x2901").kernel("550.54.15"), "GS128",
         "device-nodes", "branch 580 or newer"),
    Case("nvidia-docker-400", "a container without --gpus", lambda m: no_nodes(m).file(CONTAINER), "GS102",
         "device-nodes", "docker run --gpus all", "3"),
    Case("gke-46", "libcuda.so.1 cannot be opened on GKE", gke, "GS212", "user-driver",
         "name LD_LIBRARY_PATH, value /usr/local/nvidia/lib64", "1"),
    Case("text-generation-1711", "libcuda is there, the loader's cache is stale", stale_cache, "GS213", "user-driver",
         "Run `ldconfig`", "2"),
    Case("local-ai-11973", "nvidia-smi works, libcuda is missing", lambda m: no_libcuda(m, True), "GS214",
         "user-driver", "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "7"),
    Case("capabilities-compute-alone", "NVIDIA_DRIVER_CAPABILITIES=compute: CUDA computes, NVML is not mounted",
         lambda m: unset(m.good(), "driver/libnvidia-ml.so.1").file(CONTAINER)
         and m.variables(NVIDIA_DRIVER_CAPABILITIES="compute"), "GS408", "nvml", "utility", exit=0, cause=False),
    Case("driver-too-old", "35: the driver is older than the runtime",
         lambda m: m.real(13).image(cuda="13.5", libraries=[]).set(CUDA_VERSION=12090), "GS502", "runtime",
         "branch 580", "4"),
    Case("vllm-20193", "no kernel image for sm_120",
         lambda m: m.good().image(compute_capabilities={"sass": ["8.0", "9.0"], "ptx": []}).set(CC="12.0",
         TORCH_ARCHS="sm_80 sm_90"), "GS804", "framework", "12.0", "16", args=("--require", "framework")),
    Case("triton-2507", "libcuda.so cannot found: ldconfig's list names a file that is gone",
         lambda m: triton_libcuda(m, "libcuda.so.1 (libc6,x86-64) => /usr/lib/none/libcuda.so.1"), "GS816", "framework",
         "TRITON_LIBCUDA_PATH=", args=("--require", "framework"), exit=0, cause=False),
    Case("nccl-1925", "NCCL fails in a container of GB200 without IMEX channels",
         lambda m: card(m.good().set(COUNT=2, FAIL="ncclCommInitAll"), "0x2941").variables(**KUBERNETES), "GS906",
         "collective", "ComputeDomain"),
    Case("kaito-2326", "CDI failed: libraries are mounted, no /dev/nvidia0", cdi_failed, "GS127", "device-nodes",
         "mode `legacy`"),
    Case("pytorch-125480", "cuInit gives 2 in a virtual machine",
         lambda m: m.good().set(CUINIT_RC=2).file("/proc/cpuinfo", "flags : fpu hypervisor\n"), "GS333", "driver-init",
         "No fix is confirmed"),
    Case("frigate-4136", "999 in an LXC container that may not open nvidia-uvm", lxc, "GS103", "device-nodes",
         "lxc.cgroup2.devices.allow: c 511:* rwm"),
    Case("unknown-in-docker", "999 in a container whose nodes open",
         lambda m: m.good().set(CUINIT_RC=999).file(CONTAINER), "GS312", "driver-init", "Recreate the container"),
    Case("unknown-in-lxc", "999 in an LXC container whose nodes open",
         lambda m: m.good().set(CUINIT_RC=999).file("/proc/devices", "195 nvidia\n511 nvidia-uvm\n")
         and m.file("/run/systemd/container", "lxc\n"), "GS312", "driver-init", "c 511:* rwm"),
    Case("one-of-eight-lost", "NVML calls one of eight GPUs lost, CUDA lists seven",
         lambda m: m.good().set(COUNT=7, NVML_COUNT=8, NVML_DEVICE_RC=15, NVML_BAD=7), "GS404", "driver-init", "Reboot",
         args=("--require", "driver", "--gpus", "8")),
    Case("one-of-eight-to-reset", "NVML wants a GPU reset that CUDA does not list",
         lambda m: m.good().set(COUNT=7, NVML_COUNT=8, RECOVERY=1), "GS418", "driver-init", "gpu-reset"),
    Case("recovery-of-a-lost-gpu", "a GPU must be reset, and NVML says to drain it first",
         lambda m: m.good().set(ECC=3, RECOVERY=4), "GS410", "nvml", "Let running work end", exit=0, cause=False),
    Case("fabric-degraded", "the fabric has less bandwidth", lambda m: m.good().set(FABRIC=3, FABRIC_HEALTH=0x1A9),
         "GS419", "nvml", "degraded bandwidth", exit=0, cause=False),
]
# fmt: on
