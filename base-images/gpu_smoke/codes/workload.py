"""Findings of the framework and the collective: GS8xx, GS901 to GS905."""

from __future__ import annotations

from ..hands import by_another_gpu, by_host
from . import Code

CODES = [
    Code(
        id="GS801",
        layer="framework",
        title="The framework cannot be imported",
        symptom="an ImportError or a crash at `import {value}`",
        cause="it is not installed here, or one of its libraries does not load",
        detect="import in a fresh process",
        fix="Install {value} from the image's lock; the evidence has the first error.",
        apart=(
            "`python -c 'import {value}'`: ModuleNotFoundError, it is not installed; a message with .so, a "
            "library does not load"
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS802",
        layer="framework",
        title="The framework is a CPU build",
        symptom="`Torch not compiled with CUDA enabled`, or no GPU device",
        cause="a CPU wheel was installed over, or instead of, the CUDA one",
        detect="torch.version.cuda is None; TensorFlow's build info says no CUDA",
        fix="Install the CUDA build of {value} from the right index, under /opt/base/constraints.txt.",
        source="simstudioai/sim PR#5552",
    ),
    Code(
        id="GS803",
        layer="framework",
        title="The framework sees no GPU",
        symptom="device_count() is 0 though the driver lists one",
        cause="the framework's own CUDA libraries or a mask stop it",
        detect="the framework's device count against the driver's",
        fix=(
            "Read the framework's message in the evidence; check CUDA_VISIBLE_DEVICES and use one MIG UUID per process."
        ),
        apart="`env | grep -E 'VISIBLE|LD_LIBRARY'`, then the framework's own message in the evidence",
        source="pytorch/pytorch#130181; MakazhanAlpamys/Soup#1128",
    ),
    Code(
        id="GS804",
        layer="framework",
        title="The framework has no kernels for this GPU",
        symptom="CUDA error 209 `no kernel image is available for execution on the device`",
        cause="the build's architecture list does not cover compute capability {value}",
        detect="the framework's architecture list against the device",
        fix="Install a build with kernels for compute capability {value} (12.0 needs CUDA 12.8 or newer).",
        source="vllm-project/vllm#20193; pytorch/pytorch#180101",
    ),
    Code(
        id="GS805",
        layer="framework",
        title="The framework computes wrong numbers",
        symptom="results on the GPU differ from the CPU",
        cause="a faulty GPU, or a library that does not fit",
        detect="the same operation on GPU and CPU: {value}",
        fix=by_another_gpu("take it out of service; if all are wrong, go back to the image's locked versions."),
        apart=(
            "the same command on another GPU of the same kind: right there, it is the GPU; wrong there too, "
            "it is a package"
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS806",
        layer="framework",
        title="An operation of the framework failed",
        symptom="the framework's message in the evidence",
        cause="see the message",
        detect="forward, backward, convolution and bf16 on the GPU",
        fix=("Read the message in the evidence; go back to the image's locked versions if a package was added."),
        source="gpu-smoke",
    ),
    Code(
        id="GS807",
        layer="framework",
        title="TensorFlow cannot load its GPU libraries",
        symptom="`Cannot dlopen some GPU libraries` and zero GPUs",
        cause="CUDA libraries are not installed or not in the loader's cache",
        detect="a CUDA build that lists no GPU, and its own message",
        fix=("Install `tensorflow[and-cuda]`, list the wheel folders in /etc/ld.so.conf.d and run ldconfig."),
        source="tensorflow/tensorflow#81344, #62412",
    ),
    Code(
        id="GS808",
        layer="framework",
        title="The framework lacks an architecture that the image promises",
        symptom="CUDA error 209 on one kind of node",
        cause="the wheel was built without {value}",
        detect="the framework's architecture list against image.json, without a GPU",
        fix="Correct the image's row, or install a build with {value}.",
        source="this project's image contract",
    ),
    Code(
        id="GS809",
        layer="framework",
        title="The framework was built for another CUDA major than the image",
        symptom="missing libraries, or two CUDA majors in one process",
        cause="a package replaced the image's framework",
        detect="the framework's CUDA version against image.json: {value}",
        fix="Install under /opt/base/constraints.txt, or rebuild the image from its lock.",
        source="this project's image contract",
    ),
    Code(
        id="GS810",
        layer="framework",
        title="CUDA was used before the process forked",
        symptom="`Cannot re-initialize CUDA in forked subprocess`",
        cause="the program touched the GPU and then started workers with fork",
        detect="the message of the framework or the model",
        fix="Start workers with the `spawn` method, and touch the GPU only in the worker.",
        source="vllm-project/vllm#32611, PR#44252; pytorch/pytorch#83973",
    ),
    Code(
        id="GS811",
        layer="framework",
        title="The framework did not finish in time, and the GPU works",
        symptom="the first operation takes minutes on a new kind of GPU, later starts are quick",
        cause=(
            "the build has no compiled code for this GPU and compiles its kernels at first use; else a "
            "deadlock in the framework"
        ),
        detect=("the framework's layer ran over --timeout while kernels of our own computed right on the same GPU"),
        fix=(
            "Run again with `--timeout 1800` and a CUDA_CACHE_PATH that is kept "
            "(CUDA_CACHE_MAXSIZE=4294967296), or use a build of {value} with code for this GPU."
        ),
        apart="run it again: much faster, it was compiling; as slow, look where it waits (`py-spy dump`)",
        source="TensorFlow, GPU support; CUDA programming guide, just-in-time compilation",
    ),
    Code(
        id="GS812",
        layer="framework",
        severity="warning",
        title="torch.compile cannot start: nothing compiles Triton's C module",
        symptom="`Failed to find C compiler` or `base-cc: this image has no C compiler` at the first compiled call",
        cause=(
            "the variable CC or the folder /opt/base/modules of the base image was lost (`ENV CC`, a stage that "
            "copies /opt/env alone); else another Triton than the image's, whose module was not compiled with it"
        ),
        detect="Triton's own call of CC, gcc or clang on its driver.c, without the driver",
        fix=(
            "Build FROM the base image and leave CC=/usr/local/bin/base-cc and /opt/base as they are; elsewhere "
            "install gcc and python3-dev."
        ),
        apart=(
            "`echo $CC; ls /opt/base/modules`: empty or missing, it was lost; both there, compare the Triton that is "
            "installed with /opt/base/constraints.txt"
        ),
        source="Triton, runtime/build.py",
    ),
    Code(
        id="GS813",
        layer="framework",
        severity="info",
        title="torch.compile needs a C compiler for each kind of kernel",
        symptom="`base-cc: this image has no C compiler` or `Failed to find C compiler` at the first compiled call",
        cause=(
            "Triton up to 3.6 compiles a launcher in C for the arguments of each kernel, and there is no compiler "
            "or no Python.h"
        ),
        detect="the launcher in Triton's driver.py; then a source with Python.h, compiled as Triton does",
        fix=(
            "If the project uses torch.compile, take the devel image, or install gcc and python3-dev in yours; a row "
            "with a newer PyTorch needs neither."
        ),
        source="Triton 3.6, backends/nvidia/driver.py",
    ),
    Code(
        id="GS814",
        layer="framework",
        severity="warning",
        title="Triton's C module cannot be loaded",
        symptom="an ImportError or OSError with cuda_utils at the first compiled call",
        cause=(
            "the module in /opt/base/modules was damaged or is of another machine; else the driver is too old for this "
            "Triton and lacks a function"
        ),
        detect="the file that {path} gives: its ELF header, then the loader",
        fix=(
            "Build the image again from its base, for the node's architecture; where a function of the driver is "
            "missing, run it on nodes with a newer driver."
        ),
        apart="the evidence: `undefined symbol: cu...`, it is the driver; anything else, it is the file",
        source="Triton, runtime/build.py",
    ),
    Code(
        id="GS815",
        layer="framework",
        severity="warning",
        title="The framework uses fewer GPUs than CUDA lists",
        symptom="one of two GPUs stays idle, and nothing says so",
        cause="a setting of the framework leaves GPUs out, or it refuses some of them",
        detect="the framework's device count against the driver's: 0 is GS803",
        fix=(
            "Read the framework's message in the evidence; unset JAX_CUDA_VISIBLE_DEVICES. TensorFlow leaves out GPUs "
            "with far fewer multiprocessors than the others: TF_MIN_GPU_MULTIPROCESSOR_COUNT=1 takes them."
        ),
        apart="`env | grep -E 'VISIBLE|TF_MIN'`, then the framework's own message in the evidence",
        source="tensorflow/tensorflow, gpu_device.cc",
    ),
    Code(
        id="GS901",
        layer="collective",
        severity="warning",
        title="/dev/shm is small",
        symptom=("NCCL `posix_fallocate failed: No space left on device`, data loader workers die with a bus error"),
        cause="the container's default of 64 MiB",
        detect="size of /dev/shm below 1 GiB; an error where the all-reduce over several GPUs fails",
        fix={
            "*": "Give /dev/shm at least 1 GiB.",
            "docker": "Run with `--shm-size=1g` (or `--ipc=host`).",
            "podman": "Run with `--shm-size=1g` (or `--ipc=host`).",
            "kubernetes": "Mount an emptyDir with `medium: Memory` at /dev/shm.",
        },
        source="NVIDIA/nccl#342, #290, #525",
    ),
    Code(
        id="GS902",
        layer="collective",
        title="NCCL failed",
        symptom="the call and its code in the evidence",
        cause="see the code; often /dev/shm, peer access or topology",
        detect="ncclCommInitAll, ncclAllReduce and their codes",
        fix="Run again with NCCL_DEBUG=INFO and read its first warning.",
        apart="NCCL_DEBUG=INFO: the first WARN names shared memory, peer access or the network",
        source="NVIDIA/nccl#342",
    ),
    Code(
        id="GS903",
        layer="collective",
        title="The all-reduce gave a wrong sum",
        symptom="training on several GPUs diverges",
        cause="a faulty link or GPU",
        detect="sum of rank + 1 over all GPUs against the known value",
        fix=("Run again with NCCL_P2P_DISABLE=1: if it is right then, the link between the GPUs is at fault."),
        apart=(
            "NCCL_P2P_DISABLE=1: right then, it is the link; wrong still, test each GPU by itself "
            "(CUDA_VISIBLE_DEVICES)"
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS904",
        layer="collective",
        title="Fewer GPUs than asked for",
        symptom="--gpus asks for more than are visible",
        cause="a mask, the container or the node gives {have} of {want}",
        detect="number of visible GPUs against --gpus",
        fix={
            "*": "Give the process {want} GPUs, or ask for {have}.",
            "kubernetes": "Request `nvidia.com/gpu: {want}` in the pod's limits, or ask for {have}.",
            "slurm": "Ask Slurm for them (`--gres=gpu:{want}`), or ask for {have}.",
        },
        source="gpu-smoke",
    ),
    Code(
        id="GS905",
        layer="collective",
        title="The all-reduce did not come back, and each GPU works",
        symptom="training over several GPUs hangs at its first step, a single GPU works",
        cause=(
            "copies between the GPUs get lost: PCIe access control (ACS) or the IOMMU of a virtual machine redirects "
            "them; rarer: a link, or a rank that died"
        ),
        detect="NCCL ran over --timeout while kernels of our own computed right on every GPU",
        fix=by_host(
            "switch ACS off in the bridges and the IOMMU to pass-through (`iommu=pt`).",
            any=(
                "Run again with NCCL_P2P_DISABLE=1: if it passes, switch ACS off in the bridges and the IOMMU"
                " to pass-through (`iommu=pt`) on the host."
            ),
            kubernetes=(
                "Run with NCCL_P2P_DISABLE=1; if it passes, the cluster's administrator switches ACS off in "
                "the node's bridges and the IOMMU to pass-through (`iommu=pt`)."
            ),
            slurm=(
                "Run with NCCL_P2P_DISABLE=1; if it passes, the site's administrators switch ACS off in the "
                "node's bridges and the IOMMU to pass-through (`iommu=pt`)."
            ),
            wsl="Run with NCCL_P2P_DISABLE=1: WSL has no way between GPUs.",
            jetson="Run with NCCL_P2P_DISABLE=1.",
        ),
        apart=(
            "NCCL_P2P_DISABLE=1 passes: the way between the GPUs; hangs too: NCCL_DEBUG=INFO names the transport that "
            "it waits for"
        ),
        source="NCCL, troubleshooting, PCI access control services",
    ),
]
